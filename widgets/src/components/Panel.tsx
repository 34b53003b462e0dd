import { h } from "preact";
import type { VNode } from "preact";
import { AppProvider } from "../app";
import type { App } from "../app";
import type { Box } from "../box";
import { Banners } from "./Banners";
import { Boundary } from "./Boundary";
import { Composer } from "./Composer";
import { Header } from "./Header";
import { Log } from "./Log";

/** One view of a chat. In another language all is drawn anew but the box: somebody may be writing there. */
export const Panel = ({ app, box, language }: { app: App; box: Box; language: string }): VNode => (
  <AppProvider value={app}>
    <Boundary key={language + 1}>
      <Header box={box} />
    </Boundary>
    <Boundary key={language + 2}>
      <Log />
    </Boundary>
    <div class="cn-banners" key={language + 3}>
      <Boundary>
        <Banners />
      </Boundary>
    </div>
    <Boundary>
      <Composer box={box} />
    </Boundary>
  </AppProvider>
);
