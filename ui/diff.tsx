/** Objects that differ and their changes: in one column, or side by side on wide screens. */
import { useEffect, useState } from "preact/hooks";
import type { ShownPreviewObject } from "../src/views/show-report.ts";
import type { PageManifests } from "../src/web/facts.ts";
import type { ShownChange, ShownObjects } from "../src/views/show-result.ts";
import { Manifest } from "./manifest.tsx";
import { Sentence } from "./parts.tsx";
import { useSetting } from "./settings.ts";
import { narrow } from "./words.ts";

type View = "unified" | "sides";
const isView = (text: string): text is View => text === "unified" || text === "sides";
/** Objects that are open initially; the user opens the others. */
const openObjects = 20;
/** Longer diffs are cut until the user expands them. */
const mostLines = 60;

export function Objects({ objects, objectsLeftOut }: ShownObjects) {
  const diff = useDiffView();
  const differs = objects.some(({ changes }) => changes.length > 0);
  return (
    <div class="objects">
      {differs && <DiffSwitch {...diff} />}
      <ObjectList objects={objects} objectsLeftOut={objectsLeftOut} view={diff.view} />
    </div>
  );
}

interface DiffView {
  readonly view: View;
  readonly isNarrow: boolean;
  onView(view: View): void;
}

/** How the user wants to see differences. */
export function useDiffView(): DiffView {
  const [view, onView] = useSetting<View>("diff", "unified", isView);
  const isNarrow = useNarrow();
  return { view: isNarrow ? "unified" : view, isNarrow, onView };
}

/** Narrow screens have no room for two columns. */
export function DiffSwitch({ view, isNarrow, onView }: DiffView) {
  if (isNarrow) return null;
  return (
    <div class="switch" role="group" aria-label="Show differences">
      <button type="button" aria-pressed={view === "unified"} onClick={() => onView("unified")}>
        Unified
      </button>
      <button type="button" aria-pressed={view === "sides"} onClick={() => onView("sides")}>
        Side by side
      </button>
    </div>
  );
}

interface ListProps {
  readonly objects: readonly ShownPreviewObject[];
  readonly objectsLeftOut: number;
  readonly view: View;
  /** Reads the manifests of what is new or changed; absent if there are none. */
  readonly readManifests?: (() => Promise<PageManifests>) | undefined;
}

export function ObjectList({ objects, objectsLeftOut, view, readManifests }: ListProps) {
  return (
    <>
      {objects.map((object, index) => (
        <ObjectSection
          key={`${index} ${object.object}`}
          {...{ object, view, readManifests }}
          begin={index < openObjects}
        />
      ))}
      {objectsLeftOut > 0 && <p class="quiet">and {objectsLeftOut} more objects</p>}
    </>
  );
}

interface SectionProps extends Pick<ListProps, "view" | "readManifests"> {
  readonly object: ShownPreviewObject;
  readonly begin: boolean;
}

function ObjectSection({ object, begin, view, readManifests }: SectionProps) {
  const { action, changes, changesLeftOut, linesLeftOut = 0, keys } = object;
  const [open, setOpen] = useState(begin);
  const title = (
    <h3>
      <span class={`action ${action}`}>{action}</span> {object.object}
    </h3>
  );
  const notes = <Notes {...object} />;
  const isRendered = (action === "new" || action === "changed") && keys === undefined;
  const manifest = readManifests && isRendered && <Manifest object={object.object} read={readManifests} />;
  if (changes.length === 0)
    return (
      <section class="object">
        {title}
        {notes}
        {manifest}
      </section>
    );
  return (
    <details class="object" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && (
        <>
          {notes}
          {changes.map((change, index) => (
            <Change key={index} change={change} of={object.object} view={view} />
          ))}
          {changesLeftOut > 0 && <p class="quiet">and {changesLeftOut} more changes</p>}
          {linesLeftOut > 0 && <p class="quiet">and {linesLeftOut} more lines, which were not stored</p>}
          {manifest}
        </>
      )}
    </details>
  );
}

/** What is said of an object beside its changes. */
function Notes({ risks = [], keys = [], missing }: ShownPreviewObject) {
  return (
    <>
      {risks.length > 0 && (
        <ul class="risks">
          {risks.map((risk, index) => (
            <li key={index}>
              <Sentence text={risk} />
            </li>
          ))}
        </ul>
      )}
      {keys.length > 0 && (
        <ul class="keys" aria-label="Keys; values are never shown">
          {keys.map(({ key, change }) => (
            <li key={key} class={change === "unchanged" ? "quiet" : undefined}>
              <code>{key}</code> {change}
            </li>
          ))}
        </ul>
      )}
      {missing && <p class="quiet">{missing}</p>}
    </>
  );
}

interface ChangeProps {
  readonly change: ShownChange;
  /** The object, which a change without a path is about. */
  readonly of: string;
  readonly view: View;
}

function Change({ change: { path, diff }, of, view }: ChangeProps) {
  const [whole, setWhole] = useState(false);
  const lines = diff.split("\n");
  const shown = whole || lines.length <= mostLines ? lines : lines.slice(0, mostLines);
  return (
    <div>
      {path && <div class="path">{path}</div>}
      {view === "sides" ? <Sides lines={shown} path={path || of} /> : <Unified lines={shown} path={path || of} />}
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
