/** kluctl's output for one deployment: live while it runs, and for some minutes after. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { PageLogLine } from "../src/web/facts.ts";
import { ageText, clockText } from "./words.ts";

/** The most that the tab keeps; the server does not store more. */
const mostLines = 2_000;
const againMs = 5_000;

interface LogProps {
  /** The deployment's path in the API. */
  readonly path: string;
  readonly working: boolean;
  readonly now: number;
}

export function Log({ path, working, now }: LogProps) {
  const { lines, live } = useLines(path);
  const [newest, ...before] = toJobs(lines);
  return (
    <section class="log">
      <h2>Log {working && live && <span class="badge waiting live">live</span>}</h2>
      {!live && <p class="quiet">The log stream is disconnected; reconnecting …</p>}
      {newest ? <LogOf lines={newest} /> : live && <p class="quiet">No output of kluctl in the last ten minutes.</p>}
      {before.map((job) => (
        <details key={job[0]?.job}>
          <summary>
            {commandsOf(job)} <span class="quiet">{ageText(now - (job.at(-1)?.at ?? now))} ago</span>
          </summary>
          <LogOf lines={job} />
        </details>
      ))}
    </section>
  );
}

function LogOf({ lines }: { readonly lines: readonly PageLogLine[] }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    // Scrolls only if the end was visible.
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length]);
  return (
    <pre
      class="words"
      ref={box}
      role="log"
      tabIndex={0}
      aria-label={`Output of kluctl at ${clockText(lines[0]?.at)}`}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 30;
      }}
    >
      {lines.map(({ at, command, text }, index) => (
        <span key={index} class="line">
          <span class="quiet">
            {clockText(at)} {command}
          </span>{" "}
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** The newest job first; within a job, lines in their original order. */
function toJobs(lines: readonly PageLogLine[]): readonly (readonly PageLogLine[])[] {
  const jobs = new Map<string, PageLogLine[]>();
  for (const line of lines) {
    const known = jobs.get(line.job);
    if (known) known.push(line);
    else jobs.set(line.job, [line]);
  }
  return [...jobs.values()].toReversed();
}

function commandsOf(lines: readonly PageLogLine[]): string {
  return [...new Set(lines.map(({ command }) => command))].join(", ");
}

/** Reads nothing while the tab is hidden. */
function useLines(path: string): { readonly lines: readonly PageLogLine[]; readonly live: boolean } {
  const [lines, setLines] = useState<readonly PageLogLine[]>([]);
  const [live, setLive] = useState(true);
  useEffect(() => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** Whether the next lines replace the previous ones. */
    let anew = true;

    function close(): void {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    }

    function open(): void {
      close();
      if (document.hidden) return;
      const opened = (source = new EventSource(`/api/${path}/log`));
      opened.addEventListener("open", (event) => {
        if (event instanceof MessageEvent) anew = true; // sent by the server, not the connection's own event
      });
      opened.addEventListener("lines", (event) => {
        const told = JSON.parse((event as MessageEvent<string>).data) as PageLogLine[];
        const begin = anew;
        anew = false;
        setLive(true);
        setLines((before) => (begin ? told : [...before, ...told]).slice(-mostLines));
      });
      opened.addEventListener("error", () => {
        setLive(false);
        // Rejected rather than disconnected: the browser does not retry.
        if (opened.readyState === EventSource.CLOSED) timer = setTimeout(open, againMs);
      });
    }

    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      document.removeEventListener("visibilitychange", open);
      close();
    };
  }, [path]);
  return { lines, live };
}
