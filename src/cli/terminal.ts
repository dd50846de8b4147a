/** Colours and progress for terminals. */
import { styleText } from "node:util";

/** Colours on a terminal only, and not with NO_COLOR; with FORCE_COLOR everywhere. */
export function paint(colour: Parameters<typeof styleText>[0], text: string): string {
  return styleText(colour, text, { stream: process.stdout });
}

/** Whether stdout shows colours. */
export function hasColours(): boolean {
  return paint("bold", "text") !== "text";
}

/** Progress as one changing line on a terminal; otherwise at most one line every ten seconds. */
export function createProgress(err: (text: string) => void) {
  const pauseMs = 10_000;
  let lastAt = -Infinity;
  let shown = false;
  return {
    show(text: string) {
      if (process.stderr.isTTY) {
        err(`\r\u001b[2K${text} …`);
        shown = true;
      } else if (performance.now() - lastAt > pauseMs) {
        lastAt = performance.now();
        err(`${text} …\n`);
      }
    },
    clear() {
      if (shown) err("\r\u001b[2K");
      shown = false;
    },
  };
}
