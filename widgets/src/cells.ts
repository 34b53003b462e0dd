import type { AnyModel } from "./anywidget";
import type { Transport } from "./transport";

interface SharedNotebook {
  cells: unknown[];
  insertCell(index: number, cell: object): unknown;
}

/**
 * Inserts cells through the document that JupyterLab's and Notebook's widget manager stands for; undefined in a host
 * that has none. The cell is found by where the view is drawn, so a view outside of cells can insert nothing.
 */
export function cellInserter(model: AnyModel, element: HTMLElement): Transport["insertCell"] {
  const manager = model.widget_manager as { context?: { model?: { sharedModel?: SharedNotebook } } } | undefined;
  const notebook = manager?.context?.model?.sharedModel;
  if (typeof notebook?.insertCell !== "function") return undefined;
  return async (source, kind, position) => {
    const cell = element.closest<HTMLElement>(".jp-Cell");
    if (!cell) return false;
    // Of a long notebook only the cells in sight are in the page: their number stands on them.
    const index = Number(cell.dataset.windowedListIndex ?? [...(cell.parentElement?.querySelectorAll(":scope > .jp-Cell") ?? [])].indexOf(cell));
    if (!(index >= 0 && index < notebook.cells.length)) return false;
    notebook.insertCell(index + (position === "above" ? 0 : 1), { cell_type: kind, source, metadata: kind === "code" ? { trusted: true } : {} });
    return true;
  };
}
