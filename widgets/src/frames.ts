const HIDDEN = 250;
const PATIENCE = 8;

/** Runs at most once per animation frame; after a slow run it waits longer, so that typing stays quick. */
export function frameScheduler(): (flush: () => void) => void {
  let cost = 0;
  return (flush) => {
    let isDone = false;
    const run = (): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      const start = performance.now();
      flush();
      // Components are drawn in a microtask of their own, queued before this one.
      queueMicrotask(() => {
        cost = performance.now() - start;
      });
    };
    // A hidden page gets no frames, but what it holds must not fall behind.
    const timer = setTimeout(run, HIDDEN + cost);
    if (cost > PATIENCE) setTimeout(() => requestAnimationFrame(run), cost * 2);
    else requestAnimationFrame(run);
  };
}
