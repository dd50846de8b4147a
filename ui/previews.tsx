/** The deployments of a pull request: what is closed is not rendered. */
import { useMemo, useState } from "preact/hooks";
import type { ShownPreview, ShownPreviewObjects } from "../src/views/show-report.ts";
import { DiffSwitch, ObjectList, useDiffView } from "./diff.tsx";
import { AttentionBadge, Notice, Problems, Sentence } from "./parts.tsx";
import type { ReadManifests } from "./hooks.ts";
import { SearchField } from "./search-field.tsx";
import { type PreviewChanges, selectPreviews } from "./select-previews.ts";
import { addressOf } from "./words.ts";

/** The changes that count, or those of a kind that does not. */
export type ChangesTab = "changes" | keyof ShownPreview["uncounted"];

const changesOf = (preview: ShownPreview, tab: ChangesTab): ShownPreviewObjects | undefined =>
  tab === "changes" ? preview.changes : preview.uncounted[tab];

/** With more deployments, all are closed: what is closed is not rendered. */
const mostOpen = 3;
const mostOpenFound = 10;
/** More would keep the browser busy for seconds. */
const mostOpenAtOnce = 30;

interface PreviewsProps {
  readonly previews: readonly ShownPreview[];
  readonly tab: ChangesTab;
  readonly text: string;
  readonly isLinked: boolean;
  /** Absent if there are no manifests. */
  readonly readManifests?: ReadManifests | undefined;
  onText(text: string): void;
}

export function Previews({ previews, tab, text, isLinked, readManifests, onText }: PreviewsProps) {
  const diff = useDiffView();
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const found = useMemo(
    () =>
      selectPreviews(
        previews.flatMap((preview) => {
          const changes = changesOf(preview, tab);
          return changes === undefined ? [] : [{ preview, changes }];
        }),
        text,
      ),
    [previews, tab, text],
  );
  const isQuiet = ({ preview: { attention, remarks, warnings, notes } }: PreviewChanges) =>
    tab === "changes" && attention === "quiet" && remarks.length + warnings.length + notes.length === 0;
  const quiet = found.filter(isQuiet);
  const groups = groupSame(
    found.filter((one) => !isQuiet(one)),
    tab,
  );
  const shown = groups.map(({ first }) => first);
  const begin = shown.length <= (text === "" ? mostOpen : mostOpenFound);
  const isOpen = ({ deployment }: ShownPreview) => opened.get(deployment) ?? begin;
  const openOne = (preview: ShownPreview, open: boolean) => {
    // The browser reports every change, also those that were not the user's.
    if (open !== isOpen(preview)) setOpened((before) => new Map(before).set(preview.deployment, open));
  };
  const openAll = (open: boolean) => setOpened(new Map(shown.map(({ preview }) => [preview.deployment, open])));
  const some = shown.some(({ preview }) => isOpen(preview));
  return (
    <>
      <div class="tools">
        <SearchField label="Search changes" hint="Deployment, object, text of a change" text={text} onText={onText} />
        {shown.length > 1 && (some || shown.length <= mostOpenAtOnce) && (
          <button type="button" onClick={() => openAll(!some)}>
            {some ? "Close all" : "Open all"}
          </button>
        )}
        <DiffSwitch {...diff} />
      </div>
      {text !== "" && (
        <p role="status" class="quiet">
          {found.length === 0 ? "Nothing matches." : `${found.length} of ${previews.length} deployments match.`}
        </p>
      )}
      {groups.map(({ first: { preview, changes }, others }) => (
        <PreviewSection
          key={preview.deployment}
          {...{ preview, changes, others, isLinked, readManifests }}
          isCounted={tab === "changes"}
          open={isOpen(preview)}
          view={diff.view}
          onOpen={(open) => openOne(preview, open)}
        />
      ))}
      {quiet.length > 0 && (
        <details class="preview" open={shown.length === 0 && quiet.length <= mostOpenFound}>
          <summary>
            <AttentionBadge attention="quiet" /> {quiet.length === 1 ? "1 deployment" : `${quiet.length} deployments`}{" "}
            without a change
          </summary>
          <ul>
            {quiet.map(({ preview }) => (
              <li key={preview.deployment} class="breaks">
                <Name preview={preview} isLinked={isLinked} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

interface Group {
  readonly first: PreviewChanges;
  /** Deployments in which the merge does the same, and of which nothing else is to be said either. */
  readonly others: readonly ShownPreview[];
}

function groupSame(found: readonly PreviewChanges[], tab: ChangesTab): readonly Group[] {
  const byName = new Map(found.map((one) => [one.preview.deployment, one]));
  const groups = Map.groupBy(found, (one) => {
    const { sameAs = "", attention, remarks } = one.preview;
    const first = tab === "changes" ? byName.get(sameAs) : undefined;
    const isSame = first?.preview.attention === attention && first.preview.remarks.join() === remarks.join();
    return first !== undefined && isSame ? first : one;
  });
  return [...groups].map(([first, all]) => ({
    first,
    others: all.filter((one) => one !== first).map(({ preview }) => preview),
  }));
}

function Name({ preview, isLinked }: { readonly preview: ShownPreview; readonly isLinked: boolean }) {
  const { deployment, kind, places } = preview;
  return (
    <>
      {isLinked || kind ? deployment : <a href={addressOf(deployment)}>{deployment}</a>}{" "}
      <span class="quiet">{places.join(" · ")}</span>
    </>
  );
}

interface SectionProps {
  readonly preview: ShownPreview;
  readonly changes: ShownPreviewObjects;
  /** See Group. */
  readonly others: readonly ShownPreview[];
  /** Whether these are the changes that count. */
  readonly isCounted: boolean;
  readonly isLinked: boolean;
  readonly readManifests: ReadManifests | undefined;
  readonly open: boolean;
  readonly view: ReturnType<typeof useDiffView>["view"];
  onOpen(open: boolean): void;
}

function PreviewSection({ preview, changes, others, isCounted, open, view, onOpen, ...props }: SectionProps) {
  const { isLinked, readManifests } = props;
  const { deployment, places, attention, verdict, remarks, notes, failure, errors, warnings, sameAs } = preview;
  const { objects, objectsLeftOut } = changes;
  const count = objects.length + objectsLeftOut;
  const readOwn = useMemo(() => readManifests && (() => readManifests(deployment)), [readManifests, deployment]);
  const beside = isCounted
    ? [verdict, ...remarks, ...(sameAs ? [`the same as ${sameAs}`] : [])]
    : [count === 1 ? "1 object" : `${count} objects`];
  return (
    <details class="preview" open={open} onToggle={(event) => onOpen(event.currentTarget.open)}>
      <summary>
        {isCounted && <AttentionBadge attention={attention} />}
        <h2>{deployment}</h2> <span class="quiet">{places.join(" · ")}</span>
        <span class="result-words">
          {beside.join("; ")}
          {others.length > 0 && <strong> · and {others.length} more, the same</strong>}
        </span>
      </summary>
      {open && (
        <div class="preview-body">
          {!isLinked && !preview.kind && <a href={addressOf(deployment)}>The deployment</a>}
          {others.length > 0 && (
            <details>
              <summary>
                The same in {others.length === 1 ? "1 more deployment" : `${others.length} more deployments`}
              </summary>
              <ul>
                {others.map((other) => (
                  <li key={other.deployment} class="breaks">
                    <Name preview={other} isLinked={isLinked} />
                  </li>
                ))}
              </ul>
            </details>
          )}
          {isCounted && (
            <>
              {notes.map((note) => (
                <Notice key={note}>
                  <Sentence text={note} />
                </Notice>
              ))}
              {failure && (
                <pre class="words" role="group" tabIndex={0} aria-label="Error">
                  {failure}
                </pre>
              )}
              <Problems title="Errors" problems={errors} />
              <Problems title="Warnings" problems={warnings} kind="note" />
            </>
          )}
          <ObjectList {...{ objects, objectsLeftOut, view }} readManifests={isCounted ? readOwn : undefined} />
        </div>
      )}
    </details>
  );
}
