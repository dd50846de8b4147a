/** Pull requests, and the queue. */
import type { PageJob, PagePullRequest, PageQueue } from "../routes/page-facts.ts";
import { useFact, useNow } from "./hooks.ts";
import { send } from "./api.ts";
import { Age, Again, Away, Loading, Notice } from "./parts.tsx";
import { short } from "./words.ts";

export function PullRequestsView() {
  const { value, problem } = useFact<readonly PagePullRequest[]>("pull-requests", 10_000);
  const now = useNow();
  return (
    <>
      <h1>Pull requests</h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value?.length === 0 && <p>No open pull request has been previewed.</p>}
      <ul class="plain">
        {value?.map(({ name, url, baseBranch, head, at, verdict, previews }) => (
          <li key={name}>
            <div>
              <strong class="breaks">
                <Away url={url}>{name}</Away>
              </strong>{" "}
              <span class="quiet">
                <code>{short(head)}</code> into {baseBranch}, <Age at={at} now={now} />
              </span>
            </div>
            <div>{verdict}</div>
            {previews.length > 0 && (
              <details>
                <summary>{previews.length === 1 ? "1 deployment" : `${previews.length} deployments`}</summary>
                <ul>
                  {previews.map((preview) => (
                    <li key={preview.deployment}>
                      {preview.deployment}: {preview.verdict}
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
  ["active", "Runs now"],
  ["waiting", "Waits for its turn"],
  ["delayed", "Waits for another try"],
  ["failed", "Failed for good within the last day"],
];

export function QueueView() {
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
              <th scope="col">Later</th>
            </tr>
          </thead>
          <tbody>
            {value.lanes.map(({ lane, active, waiting, delayed }) => (
              <tr key={lane}>
                <th scope="row">{lane}</th>
                <td>{active}</td>
                <td>{waiting}</td>
                <td>{delayed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {value && value.jobs.length === 0 && <p class="quiet">Nothing runs, and nothing waits.</p>}
      {states.map(([state, title]) => {
        const jobs = value?.jobs.filter((job) => job.state === state) ?? [];
        if (jobs.length === 0) return null;
        return (
          <section key={state}>
            <h2>{title}</h2>
            <ul class="plain">
              {jobs.map((job, index) => (
                <Job key={`${job.lane} ${job.subject} ${index}`} job={job} now={now} />
              ))}
            </ul>
          </section>
        );
      })}
    </>
  );
}

function Job({ job: { lane, subject, state, at, tries }, now }: { readonly job: PageJob; readonly now: number }) {
  return (
    <li class="breaks">
      {subject}{" "}
      <span class="quiet">
        <Age at={at} now={now} />
        {tries > 0 && `, ${tries === 1 ? "1 try" : `${tries} tries`} so far`}
      </span>
      {state === "failed" && (
        <Again
          label="Retry"
          of={subject}
          run={async () => {
            const { queued } = await send<{ queued: boolean }>(`queue/${encodeURIComponent(lane)}/retry`, { subject });
            return queued ? "It is queued again." : "One waits already.";
          }}
        />
      )}
    </li>
  );
}
