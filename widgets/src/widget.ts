import { commTransport } from "./anywidget";
import type { AnyModel } from "./anywidget";
import { show } from "./view";

/** The entry that anywidget loads. Everything of a view begins in `render` and ends with what it returns. */
export default {
  initialize(): void {
    // Nothing is shared between the views of a model: each says hello for itself.
  },
  render({ model, el }: { model: AnyModel; el: HTMLElement }): () => void {
    return show(commTransport(model, el), el);
  },
};
