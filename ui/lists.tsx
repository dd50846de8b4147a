/** Pull requests, and the queue. */
import type { PageDeployment, PageJob, PagePullRequest, PageQueue } from "../src/web/facts.ts";
import { useFact, useNow } from "./hooks.ts";
import { send } from "./api.ts";
import { Age, Again, AttentionBadge, Away, Badge, Loading, Notice } from "./parts.tsx";
import { healthOf } from "./health.ts";
import { addressOf, keyOf, pullRequestAddressOf, short, untilText } from "./words.ts";

/** Previews of one pull request that are shown without expanding. */
const openPreviews = 5;

export function PullRequestsView() {
  const { value, problem } = useFact<readonly PagePullRequest[]>("pull-requests", 10_000);
  const now = useNow();
  return (
    <>
      <h1>Pull requests</h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value?.length === 0 && (
        <>
          <p>No open pull request has been previewed.</p>
          <p class="quiet">
            A pull request is previewed if a webhook reports it, its base is a branch that a deployment follows, and the
            server has a login for the git host's API. <a href="#/deliveries">Deliveries</a> shows what was received and
            why it was ignored.
          </p>
        </>
      )}
      <ul class="plain">
        {value?.map(({ name, pullRequest, url, title, author, openedAt, attention, ...found }) => (
          <li key={name} class="pull-request">
            <div>
              {attention && <AttentionBadge attention={attention} />}{" "}
              <strong class="breaks">
                <a href={pullRequestAddressOf(pullRequest)}>{title || name}</a>
              </strong>
            </div>
            <div class="quiet breaks">
              <Away url={url}>{name}</Away> · {author && <>by {author} · </>}
              {openedAt !== undefined && (
                <>
                  opened <Age at={openedAt} now={now} /> ·{" "}
                </>
              )}
              <code>{short(found.head)}</code> into {found.baseBranch}, compared <Age at={found.at} now={now} />
            </div>
            <div>{found.verdict}</div>
            {found.previews.length > 0 && (
              <details open={found.previews.length <= openPreviews}>
                <summary>
                  {found.previews.length === 1 ? "1 deployment" : `${found.previews.length} deployments`}
                </summary>
                <ul>
                  {found.previews.map((preview) => (
                    <li key={preview.deployment}>
                      {preview.kind ? (
                        preview.deployment
                      ) : (
                        <a href={addressOf(preview.deployment)}>{preview.deployment}</a>
                      )}
                      : {preview.verdict}
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

const states: readonly (readonly [PageJob["state"], string])[] = [
  ["active", "Running"],
  ["waiting", "Waiting"],
  ["delayed", "Waiting for a retry"],
  ["failed", "Failed permanently within the last day"],
];

/** What each lane is for, in words for users. */
const purposes: Readonly<Record<string, string>> = {
  reconcile: "reconciliations after a push, a change in the cluster or an interval",
  manual: "requests by users",
  preview: "previews of pull requests",
  report: "comments and commit statuses at git hosts",
  notify: "notifications in chats and elsewhere",
};

type Known = ReadonlyMap<string, PageDeployment>;

export function QueueView({ known }: { readonly known: Known | undefined }) {
  const { value, problem } = useFact<PageQueue>("queue", 2_000);
  const now = useNow(1_000);
  return (
    <>
      <h1>Queue</h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value && (
        <table>
          <thead>
            <tr>
              <th scope="col">Lane</th>
              <th scope="col">Running</th>
              <th scope="col">Waiting</th>
              <th scope="col">Delayed</th>
              <th scope="col" class="purpose">
                Purpose{" "}
              </th>
            </tr>
          </thead>
          <tbody>
            {value.lanes.map(({ lane, active, waiting, delayed }) => (
              <tr key={lane}>
                <th scope="row">{lane}</th>
                <td>{active}</td>
                <td>{waiting}</td>
                <td>{delayed}</td>
                <td class="quiet purpose">{purposes[lane] ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {value && value.jobs.length === 0 && <p class="quiet">No jobs are running or waiting.</p>}
      {states.map(([state, title]) => {
        const jobs = together(value?.jobs.filter((job) => job.state === state) ?? []);
        if (jobs.length === 0) return null;
        return (
          <section key={state}>
            <h2>{title}</h2>
            <ul class="plain asides">
              {jobs.map(({ job, times }) => (
                <Job key={`${job.lane} ${job.subject}`} job={job} times={times} known={known} now={now} />
              ))}
            </ul>
          </section>
        );
      })}
    </>
  );
}

interface Jobs {
  readonly job: PageJob;
  readonly times: number;
}

/** Groups jobs by subject, because failed jobs are retried and may fail again; the newest is shown. */
function together(jobs: readonly PageJob[]): readonly Jobs[] {
  const bySubject = new Map<string, Jobs>();
  for (const job of jobs) {
    const key = `${job.lane} ${job.subject}`;
    const { job: known = job, times = 0 } = bySubject.get(key) ?? {};
    bySubject.set(key, { job: job.at > known.at ? job : known, times: times + 1 });
  }
  return [...bySubject.values()];
}

interface JobProps extends Jobs {
  readonly known: Known | undefined;
  readonly now: number;
}

function Job({ job: { lane, subject, state, at, tries, why, nextAt }, times, known, now }: JobProps) {
  const [, name] = /^reconcile:(.+)$/.exec(subject) ?? [];
  const deployment = name === undefined ? undefined : known?.get(name);
  return (
    <li class="breaks">
      {state === "failed" && (
        <Again
          label="Retry"
          of={subject}
          run={async () => {
            const { queued } = await send<{ queued: boolean }>(`queue/${encodeURIComponent(lane)}/retry`, { subject });
            return queued ? "Queued again." : "Already queued.";
          }}
        />
      )}
      {deployment ? (
        <>
          reconcile <a href={addressOf(keyOf(deployment))}>{name}</a>
        </>
      ) : (
        subject
      )}{" "}
      <span class="quiet">
        <Age at={at} now={now} />
        {tries > 0 && `, ${tries === 1 ? "1 try" : `${tries} tries`}${state === "failed" ? "" : " so far"}`}
        {nextAt !== undefined && `, next try ${untilText(nextAt, now)}`}
        {why !== undefined && !(state === "failed" && deployment) && ` – ${why}`}
        {times > 1 && `, ${times} times`}
      </span>
      {/* The problem may have been fixed since. */}
      {state === "failed" && deployment && (
        <div>
          Now: <Badge health={healthOf(deployment)} /> {deployment.why}
        </div>
      )}
    </li>
  );
}
