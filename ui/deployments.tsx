/** All deployments. Only visible rows are rendered, so a thousand cost as much as twenty. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageDeployment, PageNewerCommit } from "../src/web/facts.ts";
import { keepPicked, readPicked, useFact, useNow } from "./hooks.ts";
import { Badge } from "./parts.tsx";
import { hasDrift, type Only, selectDeployments, withNewerCommits, worstFirst } from "./select-deployments.ts";
import { SearchField } from "./search-field.tsx";
import { healthOf, healthWords } from "./health.ts";
import { addressOf, ageText, driftText, keyOf, narrow, short, untilText } from "./words.ts";

const rowHeights = { wide: 48, narrow: 92 };
const newerEveryMs = 3_000;
/** Extra rows rendered above and below the visible ones. */
const spare = 8;
const isOnly = (text: string): text is Only => text === "drift" || text === "" || text in healthWords;

export function Deployments({ all }: { readonly all: readonly PageDeployment[] | undefined }) {
  const [text, setText] = useState(() => readPicked().get("search") ?? "");
  const [only, setOnly] = useState<Only>(() => {
    const picked = readPicked().get("only") ?? "";
    return isOnly(picked) ? picked : "";
  });
  useEffect(() => keepPicked({ search: text, only }), [text, only]);
  const now = useNow();
  const { value: newer, problem } = useFact<readonly PageNewerCommit[]>("newer-commits", newerEveryMs);
  const withNewer = useMemo(() => withNewerCommits(all ?? [], newer, problem), [all, newer, problem]);
  const shown = useMemo(() => selectDeployments(withNewer, text, only), [withNewer, text, only]);
  const counts = useMemo(() => countOf(all ?? []), [all]);
  if (all === undefined) return <p class="quiet">Loading …</p>;
  return (
    <>
      <h1>Deployments</h1>
      <div class="tools">
        <SearchField
          label="Search deployments"
          hint="Name, target, source, commit, reason"
          text={text}
          onText={setText}
        />
        <div class="filters" role="group" aria-label="Show only">
          {(["", ...worstFirst, "drift"] as const).map((which) => (
            <button type="button" key={which} aria-pressed={only === which} onClick={() => setOnly(which)}>
              {which === "" ? "All" : which === "drift" ? "Drift" : healthWords[which]}{" "}
              <span class="count">{counts[which]}</span>
            </button>
          ))}
        </div>
      </div>
      {all.length === 0 && (
        <p>
          There are no KluctlDeployments in the namespaces that this server watches. A new one appears here as soon as
          it is created.
        </p>
      )}
      {all.length > 0 && shown.length === 0 && <p>No deployments match.</p>}
      {shown.length > 0 && <Rows shown={shown} now={now} />}
    </>
  );
}

function Rows({ shown, now }: { readonly shown: readonly PageDeployment[]; readonly now: number }) {
  const list = useRef<HTMLUListElement>(null);
  const [isNarrow, setNarrow] = useState(narrow.matches);
  const [[first, last], setRange] = useState<readonly [number, number]>([0, 40]);
  const height = isNarrow ? rowHeights.narrow : rowHeights.wide;

  const measure = () => {
    const top = list.current?.getBoundingClientRect().top ?? 0;
    const from = Math.max(0, Math.floor(-top / height) - spare);
    const to = Math.ceil((innerHeight - top) / height) + spare;
    setRange((before) => (before[0] === from && before[1] === to ? before : [from, to]));
  };
  useLayoutEffect(measure, [height, shown.length]);
  useEffect(() => {
    const turned = () => setNarrow(narrow.matches);
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    narrow.addEventListener("change", turned);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
      narrow.removeEventListener("change", turned);
    };
  }, [height]);

  return (
    <>
      <div class="row head" aria-hidden="true">
        <span>State</span>
        <span>Deployment</span>
        <span>Commit</span>
        <span>Drift</span>
        <span>Deployed</span>
        <span>Next check</span>
        <span>Why</span>
      </div>
      <ul class="rows" ref={list} style={{ height: `${shown.length * height}px` }}>
        {shown.slice(first, last).map((deployment, index) => (
          <li
            key={keyOf(deployment)}
            aria-setsize={shown.length}
            aria-posinset={first + index + 1}
            style={{ top: `${(first + index) * height}px`, height: `${height}px` }}
          >
            <Row deployment={deployment} now={now} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Row({ deployment, now }: { readonly deployment: PageDeployment; readonly now: number }) {
  const { namespace, name, commit, drift, deployedAt, nextCheckAt, why } = deployment;
  return (
    <a class="row" href={addressOf(keyOf(deployment))}>
      <Badge health={healthOf(deployment)} />
      <span class="name" title={keyOf(deployment)}>
        <span>
          <span class="quiet">{namespace}/</span>
          {name}
        </span>
      </span>
      <code>{short(commit)}</code>
      <span class={hasDrift(deployment) ? "drifted" : "quiet"} title={driftText(drift)}>
        <span>{drift ?? "–"}</span>
      </span>
      <span class="quiet">{deployedAt === undefined ? "never" : `${ageText(now - deployedAt)} ago`}</span>
      <span class="quiet">{untilText(nextCheckAt, now) ?? "–"}</span>
      <span class="why" title={why}>
        <span>{why ?? ""}</span>
      </span>
    </a>
  );
}

function countOf(all: readonly PageDeployment[]): Readonly<Record<Only, number>> {
  const counts = { "": all.length, ready: 0, failed: 0, waiting: 0, working: 0, suspended: 0, drift: 0 };
  for (const one of all) {
    counts[healthOf(one)]++;
    if (hasDrift(one)) counts.drift++;
  }
  return counts;
}
