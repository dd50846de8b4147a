/** One deployment: its state, problems, drift, log and results. */
import { useState } from "preact/hooks";
import type { PageCommit, PageDeploymentDetails, PageResult } from "../src/web/facts.ts";
import type { ShownProblem, ShownResult } from "../src/views/show-result.ts";
import { useChanging } from "./access.ts";
import { Actions } from "./actions.tsx";
import { Objects } from "./diff.tsx";
import { useFact, useNow } from "./hooks.ts";
import { Log } from "./log.tsx";
import { Age, Badge, Commit, Loading, Notice, Problems } from "./parts.tsx";
import { healthOf } from "./health.ts";
import { driftText, durationText, timeText, untilText } from "./words.ts";

interface Props {
  readonly namespace: string;
  readonly name: string;
  /** Changes whenever the watch reported a change. */
  readonly version: unknown;
}

export function DeploymentView({ namespace, name, version }: Props) {
  const path = `deployments/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const { value, problem } = useFact<PageDeploymentDetails>(path, 10_000, version);
  const now = useNow();
  return (
    <>
      <p class="crumbs">
        <a href="#/deployments">Deployments</a>
      </p>
      <h1>
        <span class="quiet">{namespace}/</span>
        {name} {value && <Badge health={healthOf(value.deployment)} />}
      </h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {value ? <Details path={path} now={now} version={version} {...value} /> : !problem && <Loading />}
    </>
  );
}

type DetailsProps = PageDeploymentDetails & {
  readonly path: string;
  readonly now: number;
  readonly version: unknown;
};

function Details({ path, now, version, ...details }: DetailsProps) {
  const { deployment, newer, conditions, prepareError, drift, deployErrors, validateErrors, results } = details;
  const said = (of: string | undefined) => details.commits.find((one) => one.commit === of);
  const { why, commit, commitUrl, deployedCommit, deployedCommitUrl, deployedAt, nextCheckAt } = deployment;
  return (
    <>
      {/* First, so that the actions do not move when other parts appear or disappear. */}
      {useChanging() && <Actions path={path} details={details} version={version} />}
      {why && <Notice kind={healthOf(deployment) === "failed" ? "bad" : "note"}>{why}</Notice>}
      <dl class="facts">
        <dt>Commit</dt>
        <dd>
          <Commit commit={commit} url={commitUrl} />{" "}
          {commit && <a href={`#/commit/${encodeURIComponent(commit)}`}>trace</a>}
          <Said of={said(commit)} />
        </dd>
        {newer && (
          <>
            <dt>Newer commit</dt>
            <dd>
              <Commit commit={newer.commit} url={newer.commitUrl} />{" "}
              <a href={`#/commit/${encodeURIComponent(newer.commit)}`}>trace</a>{" "}
              <span class="drifted">
                waits: {newer.why}
                {newer.nextAt !== undefined && `, tried again ${untilText(newer.nextAt, now) ?? ""}`}
              </span>
              {newer.commit !== commit && <Said of={said(newer.commit)} />}
            </dd>
          </>
        )}
        <dt>Deployed</dt>
        <dd>
          {deployedAt === undefined ? (
            "never"
          ) : (
            <>
              <Commit commit={deployedCommit} url={deployedCommitUrl} /> <Age at={deployedAt} now={now} />
              {deployedCommit !== commit && <Said of={said(deployedCommit)} />}
            </>
          )}
        </dd>
        <dt>Drift</dt>
        <dd>{driftText(deployment.drift)}</dd>
        <dt>Next check</dt>
        <dd>{untilText(nextCheckAt, now) ?? "when something changes"}</dd>
        <dt>Target</dt>
        <dd>{deployment.target ?? "–"}</dd>
        <dt>Follows</dt>
        <dd class="breaks">
          {deployment.source ?? "–"}
          {deployment.path ? ` //${deployment.path}` : ""} {deployment.ref ?? ""}
        </dd>
      </dl>

      {/* A one-line error is already shown above. */}
      {prepareError && prepareError.trim() !== why && (
        <>
          <h2>The project could not be prepared</h2>
          <pre class="words" role="group" tabIndex={0} aria-label="Error">
            {prepareError}
          </pre>
        </>
      )}
      <Problems title="The last deploy had errors" problems={unlessSaid(deployErrors, why)} />
      <Problems title="The last validation had errors" problems={unlessSaid(validateErrors, why)} />

      {drift.objects.length > 0 && (
        <>
          <h2>The cluster differs from git</h2>
          <Objects {...drift} />
        </>
      )}

      <h2>Results</h2>
      {details.resultsProblem && <Notice kind="bad">{details.resultsProblem}</Notice>}
      {results.length === 0 && !details.resultsProblem && <p class="quiet">No stored results.</p>}
      {results.map((result, index) => (
        <Result key={result.id} path={path} result={result} now={now} newest={index === 0} />
      ))}

      <Log path={path} working={why?.startsWith("in progress") ?? false} now={now} />

      <h2>Conditions</h2>
      {conditions.length === 0 && <p class="quiet">None yet.</p>}
      <ul class="plain">
        {conditions.map(({ type, status, reason, message, lastTransitionTime }) => (
          <li key={type}>
            <strong>
              {type} {status}
            </strong>{" "}
            <span class="quiet">
              {reason}, since {timeText(Date.parse(lastTransitionTime))}
            </span>
            <div class="breaks">{message}</div>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The message and the author of a commit. */
function Said({ of }: { readonly of: PageCommit | undefined }) {
  if (of === undefined) return null;
  return (
    <div class="breaks">
      {of.subject}
      {of.author && <span class="quiet"> by {of.author}</span>}
    </div>
  );
}

/** Omits a single problem that is already shown above. */
function unlessSaid(problems: readonly ShownProblem[], why = ""): readonly ShownProblem[] {
  const [first, ...others] = problems;
  return first && others.length === 0 && why.endsWith(first.message) ? [] : problems;
}

interface ResultProps {
  readonly path: string;
  readonly result: PageResult;
  readonly now: number;
  readonly newest: boolean;
}

function Result({ path, result, now, newest }: ResultProps) {
  const [open, setOpen] = useState(newest);
  const { value, problem } = useFact<ShownResult>(
    open ? `${path}/results/${encodeURIComponent(result.id)}` : undefined,
  );
  const { command, commit, commitUrl, endedAt, startedAt, errors, changes, dryRun } = result;
  return (
    <details class="result" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{dryRun ? `${command}, dry run` : command}</strong> {changes || "no differences"}
        {errors > 0 && <span class="drifted"> {errors === 1 ? "1 error" : `${errors} errors`}</span>}{" "}
        <span class="quiet">
          <Age at={endedAt} now={now} />, {durationText(endedAt - startedAt)}
        </span>
      </summary>
      <p>
        Commit <Commit commit={commit} url={commitUrl} />, {timeText(endedAt)}
      </p>
      {!value && <Loading problem={problem} />}
      {value && (
        <>
          {value.renderedFrom && (
            <details>
              <summary class="quiet">
                Also rendered from{" "}
                {value.renderedFrom.length === 1 ? "another source" : `${value.renderedFrom.length} other sources`}
              </summary>
              <ul class="plain">
                {value.renderedFrom.map((source) => (
                  <li key={source} class="breaks">
                    <code>{source}</code>
                  </li>
                ))}
              </ul>
            </details>
          )}
          <Problems title="Errors" problems={value.errors} />
          <Problems title="Warnings" problems={value.warnings} />
          {value.objects.length === 0 ? <p class="quiet">No objects differed.</p> : <Objects {...value} />}
        </>
      )}
    </details>
  );
}
