/** Where is my commit? */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Trace, TracedDeployment, TracedPullRequest } from "../src/reconcile/trace.ts";
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
          aria-label="Hash of the commit"
          aria-keyshortcuts="/"
          placeholder={`Its hash, or the first seven characters or more${searchHint()}`}
          value={text}
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit">Look</button>
      </form>
      {commit === "" && (
        <p class="quiet">
          For each deployment that it concerns: when it was received, queued, rendered, applied and healthy; or why it
          was not, and whom it does not concern.
        </p>
      )}
      {wrong && <Notice kind="bad">This is no commit: give seven or more characters of its hash.</Notice>}
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
          It came along with{" "}
          <a href={`#/commit/${encodeURIComponent(within)}`}>
            <code>{short(within)}</code>
          </a>
          , the last commit of its push: that one is looked at, and told of here.
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
      {nowhere && ignored.length > 0 && <p>It concerns no deployment.</p>}
      {nowhere && ignored.length === 0 && (
        <Notice>
          Nobody here knows it. Either no deployment follows its branch, or it was not looked at yet, or something newer
          was there already. <a href="#/deliveries">Deliveries</a> shows what webhooks told,{" "}
          <a href="#/deployments">Deployments</a> who follows what.
        </Notice>
      )}
      {ignored.length > 0 && (
        <>
          <h2>Not concerned</h2>
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
            <a href={addressOf(one.deployment)}>{one.deployment}</a> <span class="quiet">{one.verdict}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A push to a large repository may concern a thousand. */
const shownAtFirst = 50;

/** Those first that somebody may be looking for. */
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
