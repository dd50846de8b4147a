/** One pull request: what merging it would change, in each deployment, and what is shown apart from that. */
import { useEffect, useState } from "preact/hooks";
import type { PagePullRequestDetails } from "../src/web/facts.ts";
import type { ShownChildren } from "../src/views/show-report.ts";
import { keepPicked, type ReadManifests, readPicked, useManifests, useNow, useReport } from "./hooks.ts";
import { Age, AttentionBadge, Away, Loading, Notice, Sentence } from "./parts.tsx";
import { type ChangesTab, Previews } from "./previews.tsx";
import { TabPanel, Tabs } from "./tabs.tsx";
import { short, timeText } from "./words.ts";

interface Props {
  /** Forge, the parts of the repository's name, and number. */
  readonly place: readonly string[];
  /** The signature of the link that led here; with it, nothing else can be opened. */
  readonly link?: string | undefined;
}

export function PullRequestView({ place, link }: Props) {
  const path = place.map(encodeURIComponent).join("/");
  const { value, problem } = useReport(`pull-requests/${path}`, link);
  const readManifests = useManifests(path, link, value?.startedAt);
  const now = useNow();
  const { title, name, url, author, openedAt, head, baseBranch, attention, verdict, link: opened } = value ?? {};
  useEffect(() => {
    if (link !== undefined && name !== undefined) document.title = `${title || name} – Towline`;
  }, [link, title, name]);
  if (value === undefined) return <Loading problem={problem} />;
  return (
    <>
      {link === undefined && (
        <p class="crumbs">
          <a href="#/pull-requests">Pull requests</a>
        </p>
      )}
      <h1>
        {verdict && attention && <AttentionBadge attention={attention} />} {title || name}
      </h1>
      {problem && <Notice kind="bad">{problem} The data shown may be out of date.</Notice>}
      <p class="quiet breaks">
        <Away url={url}>{name}</Away> · {author && <>by {author} · </>}
        {openedAt !== undefined && (
          <>
            opened <Age at={openedAt} now={now} /> ·{" "}
          </>
        )}
        <code>{short(head)}</code> into <code>{baseBranch}</code>
      </p>
      <Summary report={value} />
      <Parts report={value} isLinked={link !== undefined} readManifests={readManifests} now={now} />
      <p class="quiet">
        <Sentence text={value.compared} />
        {opened && ` · this link is valid until ${timeText(opened.until)}`}
      </p>
    </>
  );
}

function Summary({ report }: { readonly report: PagePullRequestDetails }) {
  const { verdict, attention, staleness, notes, obstacle = [], leftOut } = report;
  const isBad = attention === "failing";
  return (
    <>
      {verdict && (
        <p class={isBad ? "verdict bad-words" : "verdict"}>
          <Sentence text={upperFirst(verdict)} />
        </p>
      )}
      {staleness && (
        <p class="breaks">
          <Sentence text={staleness} />
        </p>
      )}
      {notes.map((note) => (
        <p key={note} class="breaks">
          <Sentence text={note} />
        </p>
      ))}
      {obstacle.length > 0 && (
        <Notice kind={isBad ? "bad" : "note"}>
          {obstacle.map((text) => (
            <div key={text}>
              <Sentence text={text} />
            </div>
          ))}
        </Notice>
      )}
      {leftOut && (
        <p class="quiet breaks">
          <Sentence text={leftOut} />
        </p>
      )}
    </>
  );
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const tabTitles = {
  changes: "Changes",
  noise: "Noise",
  undeployed: "Not deployed yet",
  drifted: "Drift",
  kept: "Kept",
  children: "Child deployments",
  earlier: "Earlier previews",
} as const;
type Tab = keyof typeof tabTitles;
const allTabs = Object.keys(tabTitles) as Tab[];

interface PartsProps {
  readonly report: PagePullRequestDetails;
  readonly isLinked: boolean;
  readonly readManifests: ReadManifests;
  readonly now: number;
}

function Parts({ report, isLinked, readManifests, now }: PartsProps) {
  const [picked, setPicked] = useState(() => readPicked().get("tab") ?? "");
  const [text, setText] = useState(() => readPicked().get("search") ?? "");
  const { previews, earlier, uncounted, children } = report;
  const counts: Record<Tab, number> = {
    changes: previews.filter(({ attention }) => attention !== "quiet").length,
    ...{ noise: 0, undeployed: 0, drifted: 0, kept: 0 },
    children: children === undefined ? 0 : children.previews.length + children.unshown.length + children.beyond,
    earlier: earlier.length,
  };
  for (const preview of previews) {
    for (const kind of Object.keys(preview.uncounted) as Exclude<ChangesTab, "changes">[]) counts[kind]++;
  }
  const tabs = allTabs.filter((tab) => counts[tab] > 0 || (tab === "changes" && previews.length > 0));
  const tab = tabs.find((one) => one === picked) ?? tabs[0];
  useEffect(() => {
    keepPicked({ link: readPicked().get("link") ?? "", tab: picked, search: text });
  }, [picked, text]);
  if (tab === undefined) return null;
  return (
    <>
      <Tabs
        label="Parts of the preview"
        tabs={tabs.map((id) => ({ id, title: tabTitles[id], count: counts[id] }))}
        selected={tab}
        onSelect={setPicked}
      />
      <TabPanel tab={tab}>
        {tab === "earlier" ? (
          <Earlier earlier={earlier} now={now} />
        ) : tab === "children" ? (
          children && <Children key={tab} {...{ children, text }} onText={setText} />
        ) : (
          <>
            {uncounted
              .filter(({ kind }) => kind === tab)
              .map(({ kind, title, why }) => (
                <p key={kind} class="breaks">
                  {title && (
                    <>
                      <Sentence text={title} />.{" "}
                    </>
                  )}
                  <span class="quiet">
                    <Sentence text={why} />
                  </span>
                </p>
              ))}
            <Previews key={tab} {...{ previews, tab, text, isLinked, readManifests }} onText={setText} />
          </>
        )}
      </TabPanel>
    </>
  );
}

interface ChildrenProps {
  readonly children: ShownChildren;
  readonly text: string;
  onText(text: string): void;
}

/** The deployments that the compared ones contain. They may not be in the cluster yet, so they have no link. */
function Children({ children: { title, why, previews, unshown, beyond }, text, onText }: ChildrenProps) {
  return (
    <>
      <p class="breaks">
        {title && <>{title}. </>}
        <span class="quiet">{why}</span>
      </p>
      {previews.length > 0 && <Previews {...{ previews, text, onText }} tab="changes" isLinked />}
      <ul class="plain">
        {unshown.map(({ deployment, reason }) => (
          <li key={deployment} class="breaks">
            {deployment}: <Sentence text={reason} />.
          </li>
        ))}
      </ul>
      {beyond > 0 && <p class="quiet">{beyond === 1 ? "1 more is not shown." : `${beyond} more are not shown.`}</p>}
    </>
  );
}

function Earlier({ earlier, now }: Pick<PagePullRequestDetails, "earlier"> & { readonly now: number }) {
  return (
    <ul class="plain">
      {earlier.map(({ head, verdict, at }) => (
        <li key={head} class="breaks">
          <code>{short(head)}</code> {verdict}{" "}
          <span class="quiet">
            <Age at={at} now={now} />, {timeText(at)}
          </span>
        </li>
      ))}
    </ul>
  );
}
