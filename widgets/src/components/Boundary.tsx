import { Component, h } from "preact";
import type { ComponentChildren } from "preact";
import { t } from "../strings";

/** An error of a component is shown in its place, and the rest of the panel goes on. */
export class Boundary extends Component<{ children?: ComponentChildren }, { message: string }> {
  override state = { message: "" };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ message: error instanceof Error ? error.message : String(error) });
  }

  render(): ComponentChildren {
    const { message } = this.state;
    if (!message) return this.props.children;
    return (
      <p class="cn-error" role="alert">
        {t("broken", message)}
      </p>
    );
  }
}
