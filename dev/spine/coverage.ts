/** Which of our functions run, and in which order their files are first entered. */
import { Session } from "node:inspector";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Entered } from "./count.ts";

interface Covered {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
    }[];
  }[];
}

export interface Recording {
  /** Notes what ran since the last mark: the more marks, the finer the order. */
  mark(): void;
  /** Forgets what was recorded. */
  restart(): void;
  /** Ends the recording. The files in the order in which they were first entered, as far as the marks show it. */
  end(): readonly Entered[];
}

/**
 * Records the calls of functions in this process, in files below these folders of the root. Functions that run while a
 * module is loaded count too, the module's own top level does not.
 */
export function startRecording(root: string, folders: readonly string[]): Recording {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const places = folders.map((folder) => pathToFileURL(join(root, folder)).href + "/");
  const entered = new Map<string, Set<string>>();

  function take(): Covered {
    let covered: Covered | undefined;
    let failure: Error | null = null;
    // In the same thread, the answer is there when `post` returns.
    session.post("Profiler.takePreciseCoverage", (error, answer) => {
      failure = error;
      covered = answer;
    });
    if (covered === undefined) throw new Error("V8 reports no coverage", { cause: failure });
    return covered;
  }

  function mark(): void {
    for (const { url, functions } of take().result) {
      if (!places.some((place) => url.startsWith(place))) continue;
      const called = functions.flatMap(({ functionName, ranges: [range] }) =>
        range === undefined || range.count === 0 || range.startOffset === 0
          ? []
          : [functionName || `(at ${range.startOffset})`],
      );
      if (called.length === 0) continue;
      const file = relative(root, fileURLToPath(url));
      const known = entered.get(file) ?? new Set<string>();
      entered.set(file, new Set([...known, ...called]));
    }
  }

  return {
    mark,
    restart() {
      take();
      entered.clear();
    },
    end() {
      mark();
      session.disconnect();
      return Array.from(entered, ([file, functions]) => ({ file, functions: [...functions] }));
    },
  };
}
