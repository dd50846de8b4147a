import { expect, onTestFinished, test, vi } from "vitest";
import type { ListedJob } from "../../../jobs/queued-jobs.ts";
import { startWaitingPreviews } from "../../../jobs/sweeps/waiting-previews.ts";
import { type PreviewCause, type Request, subjectOf } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";

const key = (number: number) => ({ forge: "gitea", repoName: "org/shop", number });

function waitsSince(number: number, at: number, cause: PreviewCause = "pull-request"): ListedJob {
  const request: Request = { kind: "preview", pullRequest: key(number), cause };
  return { lane: "preview", request, subject: subjectOf(request), state: "waiting", at, tries: 0 };
}

test("the reports of changed pull requests whose preview waits for ten seconds are requested once by all replicas", async () => {
  vi.useFakeTimers({ now: 100_000 });
  onTestFinished(() => void vi.useRealTimers());
  const jobs: ListedJob[] = [];
  const requests: Request[] = [];
  const claims = new Set<string>();
  const state = { down: false };
  const queue: Parameters<typeof startWaitingPreviews>[0]["queue"] = {
    async waiting(lane, forMs) {
      if (state.down) throw new Error("Redis is away");
      return jobs.filter((job) => job.lane === lane && job.at <= Date.now() - forMs);
    },
    claim: async (what) => !claims.has(what) && claims.add(what) !== undefined,
    async enqueue(wanted) {
      requests.push(...wanted);
      return { queued: wanted.length };
    },
  };
  for (let replica = 0; replica < 2; replica++) {
    const waiting = startWaitingPreviews({ queue, log: silentLog });
    onTestFinished(() => waiting.stop());
  }
  jobs.push(waitsSince(1, 100_000), waitsSince(2, 100_000, "base"), waitsSince(3, 104_000));
  await vi.advanceTimersByTimeAsync(9_999);
  expect(requests).toEqual([]);
  state.down = true;
  await vi.advanceTimersByTimeAsync(1);
  state.down = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(requests).toEqual([1, 3].map((number) => ({ kind: "report", pullRequest: key(number) })));

  await vi.advanceTimersByTimeAsync(60_000);
  expect(requests).toHaveLength(2);
  jobs.splice(0, 3, waitsSince(1, 170_000)); // of the next push
  await vi.advanceTimersByTimeAsync(15_000);
  expect(requests).toHaveLength(3);
});
