/** Small components that several views share. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { ShownProblem } from "../src/views/show-result.ts";
import type { PagePullRequest } from "../src/web/facts.ts";
import { useChanging, useObjection } from "./access.ts";
import { type Health, healthWords } from "./health.ts";
import { ageText, messageOf, short, timeText } from "./words.ts";

export function Badge({ health }: { readonly health: Health }) {
  return <span class={`badge ${health}`}>{healthWords[health]}</span>;
}

type Attention = NonNullable<PagePullRequest["attention"]>;

/** The colour is that of deployments in the same situation. */
const attentionLooks: Readonly<Record<Attention, { look: Health; words: string }>> = {
  failing: { look: "failed", words: "Would fail" },
  risky: { look: "waiting", words: "Needs a look" },
  working: { look: "working", words: "Comparing" },
  changing: { look: "ready", words: "Changes" },
  quiet: { look: "suspended", words: "No change" },
};

/** What a merge means for a deployment, or for all of them. */
export function AttentionBadge({ attention }: { readonly attention: Attention }) {
  const { look, words } = attentionLooks[attention];
  return <span class={`badge ${look}`}>{words}</span>;
}

/** A sentence of the server, with code in backticks. */
export function Sentence({ text }: { readonly text: string }) {
  return (
    <>{text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>
  );
}

/** A link to another site. Anything but an http(s) URL is shown without a link. */
export function Away({ url, children }: { readonly url: string | undefined; readonly children: ComponentChildren }) {
  if (url === undefined || !/^https?:\/\//i.test(url)) return <>{children}</>;
  return (
    <a href={url} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}

export function Commit({ commit, url }: { readonly commit: string | undefined; readonly url?: string | undefined }) {
  return (
    <Away url={commit ? url : undefined}>
      <code>{short(commit)}</code>
    </Away>
  );
}

export function Age({ at, now }: { readonly at: number | undefined; readonly now: number }) {
  if (at === undefined || !Number.isFinite(at)) return <span>–</span>;
  return <time title={timeText(at)}>{ageText(now - at)} ago</time>;
}

export function Notice({
  kind = "note",
  children,
}: {
  readonly kind?: "note" | "bad" | "good";
  readonly children: ComponentChildren;
}) {
  return <div class={`notice ${kind}`}>{children}</div>;
}

export function Loading({ problem }: { readonly problem?: string | undefined }) {
  return problem ? <Notice kind="bad">{problem}</Notice> : <p class="quiet">Loading …</p>;
}

interface ProblemsProps {
  readonly title: string;
  readonly problems: readonly ShownProblem[];
  readonly kind?: "note" | "bad";
}

export function Problems({ title, problems, kind = "bad" }: ProblemsProps) {
  if (problems.length === 0) return null;
  return (
    <Notice kind={kind}>
      <strong>{title}</strong>
      <ul>
        {problems.map(({ object, message }, index) => (
          <li key={index}>
            {object && <code>{object}</code>} {message}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

interface AgainProps {
  readonly label: string;
  /** The subject, for screen readers. */
  readonly of: string;
  /** Resolves with the result as text. */
  run(): Promise<string>;
}

/** A button that repeats something. */
export function Again({ label, of, run }: AgainProps) {
  const id = useId();
  const objection = useObjection();
  const changing = useChanging();
  const [outcome, setOutcome] = useState<{ readonly words: string; readonly bad?: boolean } | undefined>(undefined);
  async function start(): Promise<void> {
    if (objection !== undefined) return setOutcome({ words: objection });
    setOutcome({ words: "Sending the request …" });
    await run().then(
      (words) => setOutcome({ words }),
      (error: unknown) => setOutcome({ words: messageOf(error), bad: true }),
    );
  }
  if (!changing) return null;
  return (
    <span class="again">
      <button
        type="button"
        aria-label={`${label} ${of}`}
        aria-disabled={objection !== undefined}
        aria-describedby={id}
        title={objection}
        onClick={() => void start()}
      >
        {label}
      </button>
      <span id={id} class="unseen">
        {objection}
      </span>
      <span role="status" class={outcome?.bad ? "bad-words" : "quiet"}>
        {outcome?.words}
      </span>
    </span>
  );
}
