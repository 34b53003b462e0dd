import { describe, expect, it } from "vitest";
import { lex } from "../src/markdown/lexer";
import { isInFence, mend } from "../src/markdown/mend";
import { TextStream } from "../src/markdown/stream";
import { random } from "./builders";

type Tree = { type: string; text?: string; tokens?: Tree[]; items?: Tree[] };
const types = (text: string): string[] => {
  const found: string[] = [];
  const walk = (tokens: Tree[]): void => {
    for (const token of tokens) {
      found.push(token.type);
      walk(token.tokens ?? []);
      walk(token.items ?? []);
    }
  };
  walk(lex(text) as Tree[]);
  return found;
};
const mathOf = (text: string): string[] => {
  const found: string[] = [];
  const walk = (tokens: Tree[]): void => {
    for (const token of tokens) {
      if (token.type === "math") found.push((token as unknown as { display: boolean }).display ? `[${token.text}]` : String(token.text));
      walk(token.tokens ?? []);
      walk(token.items ?? []);
    }
  };
  walk(lex(text) as Tree[]);
  return found;
};

describe("math", () => {
  it.each([
    ["from $5 to $10", []],
    ["it costs $5, or $6", []],
    ["$x^2$", ["x^2"]],
    ["\\(a\\)", ["a"]],
    ["\\[b\\]", ["[b]"]],
    ["$$c$$", ["[c]"]],
    ["`$d$`", []],
    ["a \\$x\\$ b", []],
    ["$ x$ and $y $", []],
    ["$$\na\n\nb\n$$", ["[a\n\nb]"]],
    ["text $a_b$ and $c_d$", ["a_b", "c_d"]],
    ["a $x\n\ny$ b", []],
    ["$$x$$ tail\n\n$$\ny\n$$", ["[x]", "[y]"]],
    ["text\n$$\nx\n$$\nmore", ["[x]"]],
  ])("C21 of widget.md: %s", (text, expected) => {
    expect(mathOf(text)).toEqual(expected);
  });
});

describe("raw HTML", () => {
  it.each(["<b>x</b>", "<script>alert(1)</script>", "a <img src=x onerror=y> b", "<div>\n\n*x*\n\n</div>", "<!-- c -->"])("widget.md section 4: %s shows as text", (text) => {
    expect(types(text)).not.toContain("html");
  });
});

describe("code in an item", () => {
  it("5.2 of widget.md: what is copied is the text as it was, with its tabs", () => {
    const list = (lex("- so:\n\n  ```make\n  all: x\n  \tcc\tx\n  ```\n- b") as unknown as { items: { tokens: { type: string; text: string }[] }[] }[])[0];
    expect(list?.items[0]?.tokens.find((token) => token.type === "code")?.text).toBe("all: x\n\tcc\tx");
  });
});

describe("a hostile text", () => {
  const times = (text: string, count: number): string => text.repeat(count);
  it.each([
    ["stars", times("*a ", 20_000)],
    ["stars and one that closes", times("*a ", 20_000) + "b*"],
    ["pairs of stars", times("**a** ", 20_000)],
    ["brackets", times("[", 100_000) + "x"],
    ["brackets without an address", times("[a]", 20_000)],
    ["addresses without an end", times("[a](", 20_000) + " x)"],
    ["brackets in an address", "[a](" + times("(", 20_000)],
    ["images", times("![", 20_000)],
    ["words of an address", times("xyz_", 50_000)],
    ["signs of an address", times("a@", 50_000)],
    ["tildes", times("~~a ", 20_000)],
    ["formulas without an end", times("\\(a ", 20_000)],
    ["escapes", times("\\* ", 50_000)],
    ["lines without a text", "a" + times("\n", 100_000) + "b"],
    ["closing brackets", "[" + times("]", 100_000) + "x"],
    ["quotations", times("> ", 3000) + "a"],
    ["lists", Array.from({ length: 700 }, (_, at) => times("  ", at) + "- a").join("\n")],
    ["items", times("- item with *text* and `code`\n", 5000)],
    ["references", Array.from({ length: 2000 }, (_, at) => `[r${at}]: http://x/${at}`).join("\n") + "\n\n" + times("[r7] ", 2000)],
  ])("widget.md section 8: %s cost what they are long, not the square of it", (_, text) => {
    const start = performance.now();
    lex(text);
    mend(text);
    // A second is far above what it takes, and far below the minute that it took.
    expect(performance.now() - start).toBeLessThan(4000);
  });

  it("emphasis after many signs that close nothing is still emphasis", () => {
    expect(types(times("2 * 3 and a_b and [1] and $5, ", 500) + "**bold** and [a](http://b.c)")).toEqual(expect.arrayContaining(["strong", "link"]));
  });
});

describe("a growing text", () => {
  const raw = (text: string): string => {
    const found: string[] = [];
    const walk = (tokens: Tree[]): void => {
      for (const token of tokens) {
        if (token.tokens?.length) walk(token.tokens);
        else if (token.items) walk(token.items);
        else if (token.type === "table") found.push("");
        else if (token.type === "text" || token.type === "escape") found.push(token.text ?? "");
      }
    };
    walk(lex(text) as Tree[]);
    return found.join("");
  };

  it.each(["**bold** end", "a *word* b", "~~gone~~ x", "a `code` b", "***both*** x", "see [a](http://b.c/d) now", "| a | b |\n|---|---|\n| c | d |",
    "**bold with *both* in it** x", "***all* of** it", "a **[link](http://b.c/d) in bold** x", "- **one**\n- `two`\n- *three*", "| **a** | `b` |\n|---|---|\n| [c](http://d.e) | ~~f~~ |",
    "# Head **bold**\n\ntext ``co`de`` end", "so $a_b*c$ and \\(x_1 * y_2\\) *end*"])("C20 of widget.md: no raw sign of %s flashes", (text) => {
    for (let end = 1; end <= text.length; end += 1) expect(raw(mend(text.slice(0, end))), text.slice(0, end)).not.toMatch(/\*|~|`|\]\(|\|/);
  });

  // All letters that are drawn, formulas as one sign each.
  const shown = (text: string): string => {
    const walk = (tokens: Tree[]): string =>
      tokens
        .map((token): string => {
          const table = token as unknown as { header?: { tokens: Tree[] }[]; rows?: { tokens: Tree[] }[][] };
          if (token.type === "math") return "∎";
          if (token.type === "image") return "□";
          if (table.header) return [table.header, ...(table.rows ?? [])].flat().map((cell) => walk(cell.tokens)).join("");
          if (token.items) return walk(token.items);
          if (token.tokens?.length) return walk(token.tokens);
          return ["space", "def", "hr", "br", "checkbox"].includes(token.type) ? "" : (token.text ?? "");
        })
        .join("");
    return walk(lex(text) as Tree[]).replace(/\s/g, "");
  };

  it.each([
    ...["- one\n- two **b**\n  - three", "1. one\n2) two", "* star\n+ plus", "> quote *x*\n> more\n\nend", "> - a\n> - b `c`\n"],
    ...["- [ ] open\n- [x] done", "# Head *it*\n\ntext\n\n---\n\nb", "Title\n===\n\nx", "***\n\nb", "line one  \nline two"],
    ...["``a ` b`` c", "x `` ` `` y", "`$d$` and `**x**`", "and ![alt](http://a.example/x.png) shown!", "a \\* b \\$ c \\\\ d"],
    ...["\\(a\\) and \\[b\\] end", "\\[\na+b\n\\]\n\nend", "$$\na+b\n$$\n\nend", "$a_1$, $b_2$ and **$c$**", "**Note:** $\\frac{a}{b}$ is", "costs $5 and $10. done"],
    ...["<http://a.example> and http://b.example/x_y_z ok", "5 < 6 and <b>raw</b> html", "[![alt](http://x.example/i.png)](http://y.example) z", "[l](http://a.example/(x)) z"],
    ...["- a\n    ```py\n    x = '`'\n    ```\n- b", "> ```\n> code\n> ```\n\nend", "~~~\ncode\n~~~\nend", "````md\n```py\nx\n```\n````\nend", "1. ```py\n   x\n   ```\n2. b"],
  ])("C20 of widget.md: what is shown of %j is always the beginning of what it becomes", (text) => {
    const end = shown(text);
    for (let at = 1; at <= text.length; at += 1) {
      const part = shown(mend(text.slice(0, at)));
      expect(end.slice(0, part.length), text.slice(0, at)).toBe(part);
    }
  });

  it("C20 of widget.md: no entity is shown before it is whole", () => {
    for (const part of ["x &", "x &am", "x &#", "x &#38"]) expect(raw(mend(part))).toBe("x ");
    expect(raw(mend("x &amp;"))).toBe("x &amp;");
  });

  it("C20 of widget.md: an open link or image is neither link nor image", () => {
    for (const text of ["[a](http", "![a](http", "[a]"]) {
      const links = (lex(mend(text)) as Tree[]).flatMap((token) => token.tokens ?? []).filter((token) => token.type === "image");
      expect(links).toEqual([]);
    }
  });

  it("C20 of widget.md: open math is math, a price is a price", () => {
    expect(mathOf(mend("so $x"))).toEqual(["x"]);
    expect(mathOf(mend("so \\(x + "))).toEqual(["x +"]);
    expect(mathOf(mend("so $$x"))).toEqual(["[x]"]);
    expect(mathOf(mend("costs $5 and"))).toEqual([]);
  });

  it("leaves lone signs alone", () => {
    expect(raw(mend("1 * 2"))).toBe("1 * 2");
    expect(raw(mend("snake_case_name"))).toBe("snake_case_name");
    expect(raw(mend("2*3 make"))).toBe("2*3 make");
    expect(raw(mend("a \\*b"))).toBe("a *b");
    expect(raw(mend("done [x] and [y] too"))).toBe("done [x] and [y] too");
  });

  it("knows whether it ends in a fence", () => {
    expect([isInFence("```py\nx"), isInFence("```py\nx\n```"), isInFence("````\n```\n"), isInFence("text")]).toEqual([true, false, true, false]);
  });

  it("C20 of widget.md: at the end it equals what a finished text draws, however it came", () => {
    const whole = "# Head\n\nPara **one** with [ref] and $x$.\n\n- a\n- b\n\n  c\n\n1. x\n\n```py\ncode\n\nmore\n```\n\n> quote\n> more\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\ny\n$$\n\nlast\nline";
    for (const text of [whole, whole + "\n\n[ref]: http://a.b"]) {
      for (let seed = 1; seed <= 30; seed += 1) {
        const next = random(seed);
        const stream = new TextStream();
        let end = 0;
        while (end < text.length) {
          end = Math.min(text.length, end + 1 + Math.floor(next() * 9));
          stream.blocks(text.slice(0, end), false);
        }
        const plain = (blocks: { token: unknown }[]): string => JSON.stringify(blocks.map(({ token }) => token));
        expect(plain(stream.blocks(text, true))).toBe(plain(new TextStream().blocks(text, true)));
      }
    }
  });

  it.each([
    ["a list whose items stand apart", "1. a\n\n2. b\n\n   c\n\n3. d"],
    ["an item with code, and one more", "1. a\n\n   ```\n   code\n   ```\n\n2. b\n\n- c\n\n      d"],
    ["a table without outer bars", "a | b\n- | -\n1 | 2\n\n- | -"],
    ["a number at the beginning of a line", "text\n3. three\n4. four\n- a\n- b"],
    ["lines of Windows", "# Head\r\n\r\n- a\r\n- b\r\n\r\n| a |\r\n|---|\r\n| 1 |\r\n\r\n```\r\nx\r\n```\r\n\r\nend"],
    ["rules below a text", "text\n***\n---\n___\nmore\n---\n"],
    ["a formula in the lines of a heading", "text\n$$\nx\n$$\nmore\n---\n"],
  ])("C20 of widget.md: %s is at the end what a finished text draws", (_, text) => {
    const stream = new TextStream();
    for (let end = 1; end < text.length; end += 1) stream.blocks(text.slice(0, end), false);
    const plain = (blocks: { token: unknown }[]): string => JSON.stringify(blocks.map(({ token }) => token));
    expect(plain(stream.blocks(text, true))).toBe(plain(new TextStream().blocks(text, true)));
  });

  it.each([
    ["Here it is:\n| a | b", "|"],
    ["> | a | b |\n> |--", "|"],
    ["so **\\(", "*"],
    ["one\\\n", "\\"],
    ["Here it is:\n```py", "`"],
    ["- don`t\n- **bo", "*"],
    ["- a\n  $$\n  x\n  ", "$"],
    ["- $$x$$\n- and $a", "$"],
  ])("C20 of widget.md: no sign of %j flashes", (text, sign) => {
    expect(raw(mend(text))).not.toContain(sign);
  });

  it("C19 of widget.md: settled blocks are not made anew", () => {
    const stream = new TextStream();
    const [first] = stream.blocks("One.\n\nTwo.\n\nThr", false);
    expect(stream.blocks("One.\n\nTwo.\n\nThree", false)[0]).toBe(first);
  });
});
