/** Small things that several views show. */
import type { ComponentChildren } from "preact";
import type { ShownObjects, ShownProblem } from "../src/reconcile/show-result.ts";
import { ageText, type Health, healthWords, short, timeText } from "./words.ts";

export function Badge({ health }: { readonly health: Health }) {
  return <span class={`badge ${health}`}>{healthWords[health]}</span>;
}

/** Leads away from here. An address that is none, or a program, is shown without a link. */
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
  readonly kind?: "note" | "bad";
  readonly children: ComponentChildren;
}) {
  return <div class={`notice ${kind}`}>{children}</div>;
}

export function Loading({ problem }: { readonly problem?: string | undefined }) {
  return problem ? <Notice kind="bad">{problem}</Notice> : <p class="quiet">Asking the server …</p>;
}

export function Problems({ title, problems }: { readonly title: string; readonly problems: readonly ShownProblem[] }) {
  if (problems.length === 0) return null;
  return (
    <Notice kind="bad">
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

export function Objects({ objects, objectsLeftOut }: ShownObjects) {
  return (
    <div class="objects">
      {objects.map(({ object, action, changes, changesLeftOut }, index) => (
        <section class="object" key={index}>
          <h3>
            <span class={`action ${action}`}>{action}</span> {object}
          </h3>
          {changes.map(({ path, diff }, at) => (
            <div key={at}>
              <div class="path">{path}</div>
              <Diff text={diff} />
            </div>
          ))}
          {changesLeftOut > 0 && <p class="quiet">and {changesLeftOut} more changes</p>}
        </section>
      ))}
      {objectsLeftOut > 0 && <p class="quiet">and {objectsLeftOut} more objects</p>}
    </div>
  );
}

function Diff({ text }: { readonly text: string }) {
  return (
    <pre class="diff" role="group" tabIndex={0} aria-label="Difference">
      {text.split("\n").map((line, index) => (
        <span key={index} class={line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "same"}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
