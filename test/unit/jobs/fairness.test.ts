import { expect, test } from "vitest";
import { createFairness, Fairness, firstPlaceOf, moreUrgentOf, urgencyAt, urgencyOf } from "../../../jobs/fairness.ts";
import { laneOf, lanes } from "../../../jobs/lanes.ts";
import type {
  Cause,
  FluxFetchRequest,
  MergeGroupRequest,
  NotifyRequest,
  PreviewCause,
  RepoId,
  Request,
} from "../../../src/model.ts";
import { aPreviewRequest, aPullRequestKey, aRequest } from "../../support/jobs.ts";

const bullmqLargest = 2_097_152;

const about = (cause: Cause, repo: string) => aRequest("shop", cause, { repo: repo as RepoId });

/** Jobs in the order in which BullMQ would run them: lowest priority first, equal ones in order of arrival. */
function inOrder(jobs: { name: string; priority: number }[]): string[] {
  return jobs.toSorted((a, b) => a.priority - b.priority).map(({ name }) => name);
}

test("a repository with one job comes right after the first of another's five hundred", () => {
  const fairness = new Fairness();
  const jobs = Array.from({ length: 500 }, () => ({ name: "mono", priority: fairness.place(about("push", "mono")) }));
  jobs.push({ name: "single", priority: fairness.place(about("push", "single")) });

  expect(inOrder(jobs).indexOf("single")).toBe(1);
});

test("two repositories take turns", () => {
  const fairness = new Fairness();
  const names = ["a", "a", "a", "b", "b", "b"];
  const jobs = names.map((name) => ({ name, priority: fairness.place(about("push", name)) }));

  expect(inOrder(jobs)).toEqual(["a", "b", "a", "b", "a", "b"]);
});

test("a late repository joins at the current position, neither before the waiting jobs nor behind all of them", () => {
  const fairness = new Fairness();
  const mono = Array.from({ length: 100 }, () => fairness.place(about("push", "mono")));
  for (const priority of mono.slice(0, 50)) fairness.started(priority);

  const late = fairness.place(about("push", "late"));

  expect(late).toBe(mono[50]);
});

test("every push comes before every change, and so on down to the intervals", () => {
  const fairness = new Fairness();
  for (let i = 0; i < 10_000; i++) fairness.place(about("push", "busy"));
  const order: Cause[] = ["push", "change", "interval"];
  const priorities = order.map((cause) => fairness.place(about(cause, "busy")));

  expect(priorities).toEqual(priorities.toSorted((a, b) => a - b));
  expect(new Set(priorities.map(urgencyAt)).size).toBe(3);
  expect(urgencyAt(fairness.place(about("sweep", "busy")))).toBe(urgencyAt(fairness.place(about("change", "busy"))));
});

test("places stay within BullMQ's limit and within their class, however long the queue gets", () => {
  const fairness = new Fairness();
  let priority = 0;
  for (let i = 0; i < 400_010; i++) priority = fairness.place(about("interval", "endless"));

  expect(priority).toBeLessThan(bullmqLargest);
  expect(urgencyAt(priority)).toBe(urgencyAt(new Fairness().place(about("interval", "endless"))));
  expect(new Fairness().place(about("push", "first"))).toBe(1); // 0 would go before all others
});

test("places that no job used are given back, so repeated requests cost nothing", () => {
  const fairness = new Fairness();
  fairness.place(about("push", "a"));
  const unused = [fairness.place(about("push", "a")), fairness.place(about("push", "a"))];
  for (const priority of unused.toReversed()) fairness.giveBack(priority, about("push", "a"));

  expect(fairness.place(about("push", "a"))).toBe(unused[0]);
});

test("once nothing waits, every repository starts from the beginning", () => {
  const fairness = new Fairness();
  for (let i = 0; i < 5; i++) fairness.started(fairness.place(about("push", "a")));
  fairness.idle();

  expect([fairness.place(about("push", "a")), fairness.place(about("push", "b"))]).toEqual([1, 1]);
});

test("previews that users cause come before those that follow from them, and repositories take turns", () => {
  const fairness = new Fairness();
  const preview = (cause: PreviewCause, repoName: string, number: number) => ({
    name: `${repoName}#${number} ${cause}`,
    priority: fairness.place({ ...aPreviewRequest(number, cause), pullRequest: aPullRequestKey(number, repoName) }),
  });
  const jobs = [1, 2, 3].map((number) => preview("base", "org/mono", number));
  jobs.push(preview("sweep", "org/mono", 4), preview("base", "org/shop", 1), preview("pull-request", "org/mono", 5));

  expect(inOrder(jobs)).toEqual([
    "org/mono#5 pull-request",
    "org/mono#1 base",
    "org/shop#1 base",
    "org/mono#2 base",
    "org/mono#3 base",
    "org/mono#4 sweep",
  ]);
});

test("reports of all pull requests and commits are equally urgent, and repositories take turns", () => {
  const fairness = new Fairness();
  const report = (repoName: string, number: number) =>
    fairness.place({ kind: "report", pullRequest: aPullRequestKey(number, repoName) });
  const mono = [1, 2, 3].map((number) => report("org/mono", number));
  const commit = { forge: "gitea", repoName: "org/mono", commit: "c".repeat(40) };
  const status = fairness.place({ kind: "commit-status", commit, repo: "git.example.com/org/mono" as RepoId });

  expect([...mono, status, report("org/shop", 1)]).toEqual([1, 2, 3, 4, 1]);
});

const of = (name: string, repo: string) => aRequest(name, "push", { repo: repo as RepoId });

test("repositories share the time: one with long jobs has fewer turns, but does get them", () => {
  const fairness = new Fairness();
  for (let i = 0; i < 3; i++) fairness.took(of(`slow-${i}`, "slow"), 10);
  const jobs = [0, 1, 2].map((i) => ({ name: `slow-${i}`, priority: fairness.place(of(`slow-${i}`, "slow")) }));
  for (let i = 0; i < 30; i++) jobs.push({ name: "quick", priority: fairness.place(of(`quick-${i}`, "quick")) });

  const order = inOrder(jobs);
  expect(order.indexOf("slow-0")).toBe(0);
  expect(order.indexOf("slow-1")).toBeGreaterThan(8);
  expect(order.indexOf("slow-1")).toBeLessThan(14);
  expect(order.indexOf("slow-2")).toBeLessThan(order.length - 1);
});

test("of jobs requested together those known to be short go first", () => {
  const fairness = new Fairness();
  fairness.took(of("long", "mono"), 40);
  fairness.took(of("short", "mono"), 2);
  const all = ["long", "short", "unknown"].map((name) => of(name, "mono"));
  const names = fairness.shortestFirst(all, (one) => one).map((one) => one.kind === "reconcile" && one.deployment.name);
  expect(names).toEqual(["unknown", "short", "long"]);
});

test("the place of a long job that was not queued is given back completely", () => {
  const fairness = new Fairness();
  fairness.took(of("long", "mono"), 40);
  const priority = fairness.place(of("long", "mono"));
  fairness.giveBack(priority, of("long", "mono"));
  expect(fairness.place(of("next", "mono"))).toBe(priority);
});

test("if no job starts for some time the order starts again, so that no repository is pushed back for ever", () => {
  const time = { now: 0 };
  const fairness = new Fairness(() => time.now);
  const first = fairness.place(about("push", "mono"));
  time.now += 9 * 60_000;
  expect(fairness.place(about("push", "mono"))).toBe(first + 1);
  time.now += 2 * 60_000;
  expect(fairness.place(about("push", "mono"))).toBe(first);

  fairness.started(first);
  time.now += 9 * 60_000;
  expect(fairness.place(about("push", "mono"))).toBe(first + 1);
});

const aMergeGroup = (ended: boolean, repoName = "org/mono"): MergeGroupRequest => ({
  kind: "merge-group",
  group: { forge: "github", repoName, commit: "c".repeat(40), branch: "gh-readonly-queue/main/pr-7", base: "b" },
  ended,
});

test("a merge group that ended goes before one that waits for its check, and repositories take turns", () => {
  expect([aMergeGroup(true), aMergeGroup(false)].map(urgencyOf)).toEqual([0, 1]);
  const fairness = new Fairness();
  const repos = ["org/mono", "org/mono", "org/shop"];
  const places = repos.map((repoName) => fairness.place(aMergeGroup(true, repoName)));
  expect(places).toEqual([1, 2, 1]);
});

const aNotification = (target: string): NotifyRequest => ({ kind: "notify", target });
const aFetch = (cause: FluxFetchRequest["cause"], namespace: string): FluxFetchRequest => ({
  kind: "flux-fetch",
  source: { namespace, name: "shop" },
  cause,
});

test("a fetch because of a push goes before one that a sweep found, and namespaces take turns", () => {
  expect([aFetch("push", "a"), aFetch("sweep", "a")].map(urgencyOf)).toEqual([0, 1]);
  const fairness = new Fairness();
  expect(["a", "a", "b"].map((namespace) => fairness.place(aFetch("push", namespace)))).toEqual([1, 2, 1]);
});

test("targets of notifications take turns", () => {
  const fairness = new Fairness();
  expect(["team", "team", "mailbox"].map((target) => fairness.place(aNotification(target)))).toEqual([1, 2, 1]);
});

test("of two requests for one subject the more urgent one is used, and the later one if they are equal", () => {
  const [push, change, later] = [about("push", "a"), about("change", "a"), about("sweep", "a")];
  expect(moreUrgentOf(push, change)).toBe(push);
  expect(moreUrgentOf(change, push)).toBe(push);
  expect(moreUrgentOf(change, later)).toBe(later);
});

test("the first place of a class is behind all places of the class before, and before all of its own", () => {
  const fairness = new Fairness();
  fairness.started(399_999);
  const [last, change] = [fairness.place(about("push", "a")), fairness.place(about("change", "a"))];
  expect([last, change].map((place) => place < firstPlaceOf(1))).toEqual([true, false]);
  expect([last, firstPlaceOf(1), change].map(urgencyAt)).toEqual([0, 1, 1]);
});

test("jobs that have waited long have a line of their own in the class that they move up to", () => {
  const fairness = new Fairness();
  const pushes = [1, 2, 3].map(() => fairness.place(about("push", "mono")));
  const aged = [fairness.placeOfAged(0), fairness.placeOfAged(0)];
  expect([...pushes, ...aged]).toEqual([1, 2, 3, 1, 2]);
  expect(urgencyAt(fairness.placeOfAged(1))).toBe(1);
});

test("the expected duration of a subject is the mean of its last run and the previous expectation", () => {
  const fairness = new Fairness();
  for (const seconds of [10, 20]) fairness.took(of("slow", "mono"), seconds);
  expect([fairness.place(of("slow", "mono")), fairness.place(of("next", "mono"))]).toEqual([1, 16]);
});

test("however long a job takes, its repository's next turn is at most sixty short jobs away", () => {
  const fairness = new Fairness();
  fairness.took(of("endless", "mono"), 3_600);
  expect([fairness.place(of("endless", "mono")), fairness.place(of("next", "mono"))]).toEqual([1, 61]);
});

test("if there are too many subjects those that ran longest ago are forgotten, and no others", () => {
  const fairness = new Fairness();
  fairness.took(of("forgotten", "mono"), 40);
  fairness.took(of("often", "mono"), 40);
  for (let i = 0; i < 20_000; i++) {
    fairness.took(of(`one-${i}`, "mono"), 2);
    if (i === 10_000) fairness.took(of("often", "mono"), 40);
  }
  const placesOf = (name: string) => {
    const [first, next] = [fairness.place(of(name, name)), fairness.place(of("short", name))];
    return next - first;
  };
  expect(["forgotten", "one-0", "often", "one-1"].map(placesOf)).toEqual([1, 1, 40, 2]);
});

test("a place with another place behind it is not given back", () => {
  const fairness = new Fairness();
  const first = fairness.place(about("push", "a"));
  fairness.place(about("push", "a"));
  fairness.giveBack(first, about("push", "a"));
  expect(fairness.place(about("push", "a"))).toBe(3);
});

test("jobs that start out of order do not move the current position back", () => {
  const fairness = new Fairness();
  for (const priority of [5, 2]) fairness.started(priority);
  expect(fairness.place(about("push", "late"))).toBe(6);
});

test("a long job at the end of its class takes no place of the next class", () => {
  const fairness = new Fairness();
  fairness.started(399_990);
  fairness.took(of("slow", "mono"), 60);
  const slow = fairness.place(of("slow", "mono"));
  fairness.giveBack(slow, of("slow", "mono"));
  expect([slow, fairness.place(of("slow", "mono"))]).toEqual([399_991, 399_991]);
  expect(fairness.place(of("next", "mono"))).toBe(399_999);
});

test("each lane has an order of its own", () => {
  const fairness = createFairness();
  expect(Object.keys(fairness).toSorted()).toEqual(lanes.toSorted());
  fairness.reconcile.place(about("push", "a"));
  expect(fairness.manual.place(about("manual", "a"))).toBe(1);
});

test.each<[string, Request, string]>([
  ["a push", about("push", "a"), "reconcile"],
  ["what a person asked for", about("manual", "a"), "manual"],
  ["a pull request", aPreviewRequest(7), "preview"],
  ["a merge group", aMergeGroup(false), "preview"],
  ["a report", { kind: "report", pullRequest: aPullRequestKey(7) }, "report"],
  [
    "a pushed commit",
    {
      kind: "commit-status",
      commit: { forge: "gitea", repoName: "org/mono", commit: "c".repeat(40) },
      repo: "git.example.com/org/mono" as RepoId,
    },
    "report",
  ],
  ["a notification", aNotification("team"), "notify"],
  ["a fetch of Flux", aFetch("sweep", "a"), "flux"],
])("%s waits in its lane", (_, request, lane) => {
  expect(laneOf(request)).toBe(lane);
});
