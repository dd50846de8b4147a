/** Shows where a commit is deployed. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Trace, TracedDeployment, TracedPullRequest } from "../src/views/trace.ts";
import { useFact, useSearchKey } from "./hooks.ts";
import { Away, Loading, Notice } from "./parts.tsx";
import { addressOf, ageText, refText, searchHint, short, timeText } from "./words.ts";

export function CommitView({ commit, version }: { readonly commit: string; readonly version: unknown }) {
  const [text, setText] = useState(commit);
  const field = useRef<HTMLInputElement>(null);
  useSearchKey(field);
  useEffect(() => setText(commit), [commit]);
  const wrong = commit !== "" && !/^[0-9a-f]{7,64}$/i.test(commit);
  const { value, problem } = useFact<Trace>(
    commit === "" || wrong ? undefined : `trace/${encodeURIComponent(commit)}`,
    5_000,
    version,
  );
  return (
    <>
      <h1>Where is my commit?</h1>
      <form
        class="tools"
        onSubmit={(event) => {
          event.preventDefault();
          location.hash = `#/commit/${encodeURIComponent(text.trim())}`;
        }}
      >
        <input
          ref={field}
          type="text"
          aria-label="Commit hash"
          aria-keyshortcuts="/"
          placeholder={`Commit hash, at least seven characters${searchHint()}`}
          value={text}
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit">Find</button>
      </form>
      {commit === "" && (
        <p class="quiet">
          Shows, for each affected deployment, when the commit was received, queued, rendered, applied and healthy, or
          why it was not; and which deployments it does not affect.
        </p>
      )}
      {wrong && <Notice kind="bad">Not a commit hash: enter at least seven of its hexadecimal characters.</Notice>}
      {commit !== "" && !wrong && (value ? <Found trace={value} /> : <Loading problem={problem} />)}
    </>
  );
}

function Found({ trace }: { readonly trace: Trace }) {
  const { commit, within, deliveries, deployments, ignored, pullRequests } = trace;
  const nowhere = deployments.length === 0 && pullRequests.length === 0;
  const [first] = deliveries;
  const [most, setMost] = useState(shownAtFirst);
  return (
    <>
      <p class="breaks">
        {commit && <code>{commit}</code>} {first && `pushed to ${first.repoName ?? ""} ${refText(first.ref)}`}
      </p>
      {within && (
        <p>
          Pushed together with{" "}
          <a href={`#/commit/${encodeURIComponent(within)}`}>
            <code>{short(within)}</code>
          </a>
          , the newest commit of that push. Deployments deploy the newest commit, so its progress is shown here.
        </p>
      )}
      {deployments.length > 1 && (
        <p>
          {deployments.length} deployments:{" "}
          {states.map((state) => {
            const count = deployments.filter((one) => one.state === state).length;
            return (
              count > 0 && (
                <span key={state} class="whole">
                  {count} <span class={`badge ${health[state]}`}>{state}</span>{" "}
                </span>
              )
            );
          })}
        </p>
      )}
      {worstFirst(deployments)
        .slice(0, most)
        .map((one) => (
          <Traced key={one.deployment} {...one} />
        ))}
      {deployments.length > most && (
        <button type="button" onClick={() => setMost(deployments.length)}>
          Show all {deployments.length} deployments
        </button>
      )}
      {pullRequests.map((one) => (
        <Proposed key={one.name} {...one} />
      ))}
      {nowhere && ignored.length > 0 && <p>No deployment is affected.</p>}
      {nowhere && ignored.length === 0 && (
        <Notice>
          No record of this commit. Possible reasons: no deployment follows its branch, it has not been checked yet, or
          a newer commit superseded it. <a href="#/deliveries">Deliveries</a> lists what webhooks reported,{" "}
          <a href="#/deployments">Deployments</a> shows which deployment follows which branch.
        </Notice>
      )}
      {ignored.length > 0 && (
        <>
          <h2>Not affected</h2>
          <ul class="plain">
            {ignored.map(({ deployment, reason }) => (
              <li key={deployment}>
                <a href={addressOf(deployment)}>{deployment}</a> <span class="quiet">{reason}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Proposed({ name, url, words, verdict, previews }: TracedPullRequest) {
  return (
    <section class="traced">
      <h2 class="breaks">
        <Away url={url}>{name}</Away>
      </h2>
      <p class="breaks">{words}</p>
      {verdict && <p>{verdict}</p>}
      <ul class="plain">
        {previews.map((one) => (
          <li key={one.deployment}>
            {one.kind ? one.deployment : <a href={addressOf(one.deployment)}>{one.deployment}</a>}{" "}
            <span class="quiet">{one.verdict}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A push to a large repository can affect a thousand deployments. */
const shownAtFirst = 50;

/** In the order in which they are shown, the most relevant first. */
const states = ["failed", "in progress", "waiting", "suspended", "superseded", "applied", "unchanged"] as const;

function worstFirst(all: readonly TracedDeployment[]): readonly TracedDeployment[] {
  return all.toSorted((a, b) => states.indexOf(a.state) - states.indexOf(b.state));
}

const health = {
  applied: "ready",
  unchanged: "ready",
  superseded: "suspended",
  waiting: "waiting",
  "in progress": "working",
  suspended: "suspended",
  failed: "failed",
};

function Traced({ deployment, state, steps }: TracedDeployment) {
  const begin = steps.find(({ at }) => at !== undefined)?.at;
  return (
    <section class="traced">
      <h2>
        <a href={addressOf(deployment)}>{deployment}</a> <span class={`badge ${health[state]}`}>{state}</span>
      </h2>
      <ol class="steps">
        {steps.map(({ step, at, words }, index) => (
          <li key={index} class={step}>
            <strong>{step === "note" ? "" : step}</strong> {words}{" "}
            <span class="quiet">
              {at !== undefined && timeText(at)}
              {at !== undefined && begin !== undefined && at > begin && `, +${ageText(at - begin)}`}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
