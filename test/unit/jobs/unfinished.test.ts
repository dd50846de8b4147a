import { DelayedError, type Job } from "bullmq";
import { expect, test } from "vitest";
import { attemptOf, maxAttempts } from "../../../jobs/bullmq.ts";
import { createUnfinished } from "../../../jobs/unfinished.ts";
import { aRequest } from "../../support/jobs.ts";
import { silentLog } from "../../support/fakes.ts";

const unfinished = createUnfinished({ hasFollowUp: async () => false, shortestMs: 0, log: silentLog });

/** A job as far as being put off needs one. */
function aJob(attemptsMade: number): Job {
  const job = {
    attemptsMade,
    progress: 0,
    updateProgress: async (progress: Job["progress"]) => void Object.assign(job, { progress }),
    moveToDelayed: async () => undefined,
  };
  return job as unknown as Job;
}

const putOff = (job: Job, afresh: object = {}) =>
  expect(
    unfinished.putOff(job, aRequest("shop"), { kind: "later", afterMs: 60_000, why: "unavailable", ...afresh }),
  ).rejects.toThrow(DelayedError);

test("a job that is put off until an outage is over begins afresh, and has no more attempts for that", async () => {
  const job = aJob(maxAttempts - 1);
  expect(attemptOf(job)).toEqual({ attempt: maxAttempts, lastAttempt: true });
  for (const _ of [1, 2]) {
    await putOff(job, { afresh: true });
    expect(attemptOf(job)).toEqual({ attempt: 1, lastAttempt: true });
  }
});

test("a job that waits for a slow remote stays a retry, until an outage follows", async () => {
  const job = aJob(2);
  await putOff(job);
  expect(attemptOf(job)).toEqual({ attempt: 3, lastAttempt: false });
  job.attemptsMade = maxAttempts - 1;
  await putOff(job, { afresh: true });
  expect(attemptOf(job)).toEqual({ attempt: 1, lastAttempt: true });
});
