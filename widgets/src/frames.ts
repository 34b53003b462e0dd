const HIDDEN = 250;
const PATIENCE = 8;

/** Runs at most once per animation frame; after a slow run it rests for twice as long, so that typing stays quick. */
export function frameScheduler(): (flush: () => void) => void {
  let rested = 0;
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
        const now = performance.now();
        const cost = now - start;
        rested = cost > PATIENCE ? now + cost * 2 : 0;
      });
    };
    const wait = Math.max(0, rested - performance.now());
    // A hidden page gets no frames, but what it holds must not fall behind.
    const timer = setTimeout(run, HIDDEN + wait);
    if (wait > 0) setTimeout(() => requestAnimationFrame(run), wait);
    else requestAnimationFrame(run);
  };
}
