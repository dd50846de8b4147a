/** Objects that differ and their changes: in one column, or side by side on wide screens. */
import { useEffect, useState } from "preact/hooks";
import type { ShownChange, ShownObject, ShownObjects } from "../src/views/show-result.ts";
import { useSetting } from "./settings.ts";
import { narrow } from "./words.ts";

type View = "unified" | "sides";
const isView = (text: string): text is View => text === "unified" || text === "sides";
/** Objects that are open initially; the user opens the others. */
const openObjects = 20;
/** Longer diffs are cut until the user expands them. */
const mostLines = 60;

export function Objects({ objects, objectsLeftOut }: ShownObjects) {
  const [view, setView] = useSetting<View>("diff", "unified", isView);
  const isNarrow = useNarrow();
  const differs = objects.some(({ changes }) => changes.length > 0);
  return (
    <div class="objects">
      {differs && !isNarrow && (
        <div class="switch" role="group" aria-label="Show differences">
          <button type="button" aria-pressed={view === "unified"} onClick={() => setView("unified")}>
            Unified
          </button>
          <button type="button" aria-pressed={view === "sides"} onClick={() => setView("sides")}>
            Side by side
          </button>
        </div>
      )}
      {objects.map((object, index) => (
        <ObjectSection key={index} object={object} begin={index < openObjects} view={isNarrow ? "unified" : view} />
      ))}
      {objectsLeftOut > 0 && <p class="quiet">and {objectsLeftOut} more objects</p>}
    </div>
  );
}

interface SectionProps {
  readonly object: ShownObject;
  readonly begin: boolean;
  readonly view: View;
}

function ObjectSection({ object: { object, action, changes, changesLeftOut }, begin, view }: SectionProps) {
  const [open, setOpen] = useState(begin);
  const title = (
    <h3>
      <span class={`action ${action}`}>{action}</span> {object}
    </h3>
  );
  if (changes.length === 0) return <section class="object">{title}</section>;
  return (
    <details class="object" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && changes.map((change, index) => <Change key={index} change={change} view={view} />)}
      {open && changesLeftOut > 0 && <p class="quiet">and {changesLeftOut} more changes</p>}
    </details>
  );
}

function Change({ change: { path, diff }, view }: { readonly change: ShownChange; readonly view: View }) {
  const [whole, setWhole] = useState(false);
  const lines = diff.split("\n");
  const shown = whole || lines.length <= mostLines ? lines : lines.slice(0, mostLines);
  return (
    <div>
      <div class="path">{path}</div>
      {view === "sides" ? <Sides lines={shown} path={path} /> : <Unified lines={shown} path={path} />}
      {shown.length < lines.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {lines.length} lines
        </button>
      )}
    </div>
  );
}

interface LinesProps {
  readonly lines: readonly string[];
  readonly path: string;
}

function Unified({ lines, path }: LinesProps) {
  return (
    <pre class="diff" role="group" tabIndex={0} aria-label={`Changes in ${path}`}>
      {lines.map((line, index) => (
        <span key={index} class={kindOf(line)}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

function Sides({ lines, path }: LinesProps) {
  return (
    <table class="sides" aria-label={`Changes in ${path}`}>
      <thead>
        <tr>
          <th scope="col">Before</th>
          <th scope="col">After</th>
        </tr>
      </thead>
      <tbody>
        {toRows(lines).map(([before, after], index) => (
          <tr key={index}>
            <td class={before === undefined ? "none" : kindOf(before)}>{before}</td>
            <td class={after === undefined ? "none" : kindOf(after)}>{after}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Pairs each removed line with the line that replaces it. */
function toRows(lines: readonly string[]): readonly (readonly [string | undefined, string | undefined])[] {
  const rows: [string | undefined, string | undefined][] = [];
  let [gone, come]: [string[], string[]] = [[], []];
  const pair = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at++) rows.push([gone[at], come[at]]);
    [gone, come] = [[], []];
  };
  for (const line of lines) {
    const kind = kindOf(line);
    if (kind === "same" || (kind === "minus" && come.length > 0)) pair();
    if (kind === "minus") gone.push(line);
    else if (kind === "plus") come.push(line);
    else rows.push([line, line]);
  }
  pair();
  return rows;
}

function kindOf(line: string): "plus" | "minus" | "same" {
  return line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "same";
}

function useNarrow(): boolean {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const turned = () => setIs(narrow.matches);
    narrow.addEventListener("change", turned);
    return () => narrow.removeEventListener("change", turned);
  }, []);
  return is;
}
