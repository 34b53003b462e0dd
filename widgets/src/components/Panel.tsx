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

/** One view of a chat. */
export const Panel = ({ app, box }: { app: App; box: Box }): VNode => (
  <AppProvider value={app}>
    <Boundary>
      <Header box={box} />
    </Boundary>
    <Boundary>
      <Log />
    </Boundary>
    <div class="cn-banners">
      <Boundary>
        <Banners />
      </Boundary>
    </div>
    <Boundary>
      <Composer box={box} />
    </Boundary>
  </AppProvider>
);
