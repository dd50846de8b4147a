/** The actions of users and faults in an episode: commands that fast-check draws, replays and shrinks. */
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import type { Fault, Faults } from "./faults.ts";
import {
  type BranchOrder,
  createOrders,
  type DeliveryKind,
  type Orders,
  type PairOrder,
  type PullOrder,
  type PushOrder,
  type RegretOrder,
  type RequestOrder,
  type StrikeOrder,
  type Traits,
} from "./orders.ts";
import type { MergeStyle, PullRequest, PullRequestEvent, PullRequests } from "./pull-requests.ts";
import { type DeploymentPlan, extraObject, libraryContent, libraryFile, objectNames } from "./projects.ts";
import type { Push } from "./history.ts";
import type { Changes, Repository } from "./repository.ts";
import type { Replica } from "./replica.ts";
import type { Stage } from "./stage.ts";

/** The commands' own state, which no fault can change. */
export interface Model {
  readonly suspended: Set<string>;
  pushes: number;
}

export interface Real {
  readonly stage: Stage;
  readonly faults: Faults;
  readonly namespace: string;
  /** Deliveries that are sent later, by a command of their own. */
  readonly late: (() => Promise<unknown>)[];
  /** Actions that may not complete until the faults end. */
  readonly pending: Promise<void>[];
  /** The actions taken, in words, with their times. */
  readonly story: string[];
  readonly signal?: AbortSignal | undefined;
}

export type Command = fc.AsyncCommand<Model, Real>;

const seconds = 1_000;
/** Limit for waiting on an event that an earlier fault may have made impossible. */
const patienceMs = 8 * seconds;
/** The same for faults that would otherwise not strike at all, because no command follows; for a busy machine. */
const longPatienceMs = 30 * seconds;
const silenceMs = 12 * seconds;
/** Outages of the API server: one shorter than a Lease, one longer than all attempts of a job. */
const [short, long] = [8 * seconds, 200 * seconds];

/**
 * Commands in any order, and then pairs of faults that nothing follows: a later push hides what they leave behind, as the
 * start of a server does. An episode that keeps its servers is short for the same reason.
 */
export function aStory(traits: Traits): fc.Arbitrary<readonly Command[]> {
  const { fewest, most, fewestLast, mostLast } = lengthsOf(traits);
  const orders = createOrders(traits);
  // Not fc.commands(): what that replays depends on more than the path.
  const commands = fc.array(anyCommand(orders, traits), { minLength: fewest, maxLength: most, size: "max" });
  const lastPair = orders.pair.map((pair) => toPair({ ...pair, waits: true }));
  const last = fc.array(lastPair, { minLength: fewestLast, maxLength: mostLast, size: "max" });
  return fc.tuple(commands, last).map(([all, end]) => [...all, ...end]);
}

/** Numbers of commands. */
function lengthsOf({ isShort, keepsServers }: Traits) {
  if (isShort) return { fewest: 4, most: 7, fewestLast: keepsServers ? 1 : 0, mostLast: 1 };
  if (keepsServers) return { fewest: 2, most: 8, fewestLast: 1, mostLast: 3 };
  return { fewest: 12, most: 24, fewestLast: 0, mostLast: 2 };
}

function anyCommand(orders: Orders, { isShort, replaces, proposes, keepsServers }: Traits): fc.Arbitrary<Command> {
  const { deployment, delivery, push, pull } = orders;
  const weighted: { weight: number; arbitrary: fc.Arbitrary<Command> }[] = [
    { weight: 7, arbitrary: push.map(toPush) },
    { weight: 3, arbitrary: orders.regret.map(toRegret) },
    { weight: 2, arbitrary: push.map(toCalmPush) },
    { weight: 1, arbitrary: fc.tuple(deployment, delivery).map(toSetBack) },
    { weight: 1, arbitrary: fc.tuple(deployment, delivery).map(toRewrite) },
    { weight: proposes ? 0 : 1, arbitrary: orders.branch.map(toDeleteBranch) }, // a forge refuses to delete the default branch
    { weight: 1, arbitrary: fc.constant(toLate()) },
    { weight: 1, arbitrary: deployment.map(toEdit) },
    { weight: 1, arbitrary: deployment.map(toSuspend) },
    { weight: 1, arbitrary: orders.request.map(toRequest) },
    { weight: 1, arbitrary: deployment.map(toRecreate) },
    { weight: 1, arbitrary: orders.deleting.map(toRecreate) },
    { weight: 1, arbitrary: fc.tuple(deployment, orders.object, fc.boolean()).map(toTamper) },
    { weight: 1, arbitrary: fc.constant(toApprove()) },
    { weight: 8, arbitrary: orders.strike.map(toStrike) },
    { weight: keepsServers ? 8 : 3, arbitrary: orders.pair.map(toPair) },
    { weight: 3, arbitrary: orders.fault.map(toFault) },
    { weight: keepsServers ? 0 : 1, arbitrary: fc.constant(toRestart()) },
    { weight: 1, arbitrary: fc.constant(toPause()) },
    { weight: keepsServers ? 0 : replaces ? 6 : 1, arbitrary: orders.replica.map(toReplace) },
    { weight: 1, arbitrary: (isShort ? fc.constant(short) : fc.constantFrom(short, short, short, long)).map(toOutage) },
  ];
  if (proposes)
    weighted.push(
      { weight: 5, arbitrary: pull.map(toOpen) },
      { weight: 3, arbitrary: fc.tuple(pull, fc.boolean()).map(toPushToPull) },
      { weight: 2, arbitrary: pull.map(toRetarget) },
      { weight: 2, arbitrary: pull.map(toClose) },
      { weight: 3, arbitrary: fc.tuple(pull, fc.constantFrom("merge", "squash", "rebase")).map(toMerge) },
      { weight: 6, arbitrary: orders.pullStrike.map(toPullStrike) },
    );
  return fc.oneof(...weighted);
}

function command(words: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      real.signal?.throwIfAborted();
      real.story.push(`${new Date().toISOString().slice(11, 23)} ${words}`);
      await run(model, real);
    },
    toString: () => words,
  };
}

function planOf({ stage }: Real, index: number): DeploymentPlan {
  return stage.plan.deployments[index % stage.plan.deployments.length] as DeploymentPlan;
}

function repositoryOf({ stage }: Real, name: string): Repository {
  return stage.repositories.get(name) as Repository;
}

function toPush(order: PushOrder): Command {
  const { kind, delivery, until } = order;
  const wait = until === "nothing" ? "" : `, until ${until}`;
  return command(`push ${kind} of ${order.deployment}.${order.object} (${delivery}${wait})`, async (model, real) => {
    const deployment = planOf(real, order.deployment);
    const repository = repositoryOf(real, kind === "change included" ? "base" : deployment.repo);
    const changes = changesOf(order, deployment, repository, model, real);
    const push = await repository.push(changes, kind);
    await deliver(push, order, real);
    await waitForRun(real, deployment.name, push, until);
  });
}

/**
 * The server learns only after some time what it can skip for a deployment; a push after that must still be noticed.
 */
function toCalmPush(drawn: PushOrder): Command {
  const order: PushOrder = { ...drawn, kind: drawn.kind === "change included" ? drawn.kind : "change" };
  const words = `when nothing happens any more, push ${order.kind} of ${order.deployment} among those checked often (${order.delivery})`;
  return command(words, async (model, real) => {
    await waitForSilence(real);
    const often = real.stage.plan.deployments.filter((deployment) => deployment.often);
    const chosen = often[order.deployment % often.length] as DeploymentPlan;
    const deployment = real.stage.plan.deployments.indexOf(chosen);
    await toPush({ ...order, deployment }).run(model, real);
  });
}

/**
 * Waits longer than the interval of the deployments that are checked often, so that all of their checks are skipped.
 */
async function waitForSilence({ stage: { journal } }: Real): Promise<void> {
  const from = performance.now();
  let [words, since] = [journal.words(), from];
  while (performance.now() - since < silenceMs && performance.now() - from < 4 * silenceMs) {
    await sleep(100);
    if (journal.words() !== words) [words, since] = [journal.words(), performance.now()];
  }
}

function changesOf(
  { kind, object }: PushOrder,
  deployment: DeploymentPlan,
  repository: Repository,
  model: Model,
  { stage, namespace }: Real,
): readonly Changes[] {
  const { plan } = stage;
  const color = `color-${++model.pushes}`;
  const name = objectNames[object] as string;
  const file = plan.contentFile(deployment, name);
  const projectFile = `${deployment.path}/deployment.yaml`;
  switch (kind) {
    case "change":
      return [new Map([[file, plan.content(deployment, name, color)]])];
    case "change and back": {
      const before = repository.tree().get(file) ?? "";
      return [new Map([[file, plan.content(deployment, name, color)]]), new Map([[file, before]])];
    }
    case "add object":
      return [new Map([[plan.contentFile(deployment, extraObject), plan.content(deployment, extraObject, color)]])];
    case "remove object": {
      const extra = plan.contentFile(deployment, extraObject);
      return [new Map(repository.tree().has(extra) ? [[extra, undefined]] : [])];
    }
    case "change outside":
      return [new Map([["README.md", `${color}\n`]])];
    case "change included":
      return [new Map([[libraryFile, libraryContent(namespace, color)]])];
    case "break":
      return [new Map([[projectFile, "deployments: [\n"]])];
    case "mend":
      return [new Map([[projectFile, plan.files(deployment.repo).get(projectFile) ?? ""]])];
    case "revert":
      return [changesBack(repository)];
  }
}

/** The changes that restore the files of the previous commit; none if there is no other. */
export function changesBack(repository: Repository): Changes {
  const commit = repository.commits().at(-2);
  if (commit === undefined) return new Map();
  const [before, now] = [repository.treeAt(commit), repository.tree()];
  const paths = [...new Set([...before.keys(), ...now.keys()])];
  const pairs = paths.map((path) => [path, before.get(path)] as const);
  return new Map(pairs.filter(([path, text]) => now.get(path) !== text));
}

/** Changes all objects of a deployment and reverts the change while kluctl is applying it. */
function toRegret({ deployment, delivery, to }: RegretOrder): Command {
  return command(`push and regret of ${deployment} (the revert ${delivery})`, async (model, real) => {
    const { name } = planOf(real, deployment);
    const push = await changeAll(deployment, to, model, real);
    await waitForRun(real, name, push, real.stage.isReal ? "a run" : "an object");
    await takeBack(deployment, { delivery, to }, real);
  });
}

/** Pushes a change and injects a fault at a given moment of its deploy, then reverts the change in some cases. */
function toStrike({ fault, deployment, regrets, delivery }: StrikeOrder): Command {
  const end = regrets ? `, taken back (${delivery})` : "";
  return command(`push of ${deployment} and ${describeFault(fault)}${end}`, async (model, real) => {
    await real.faults.strike(fault);
    await changeAll(deployment, fault.victim, model, real);
    await waitForStrike(fault, real);
    if (regrets) await takeBack(deployment, { delivery, to: fault.victim + 1 }, real);
  });
}

/** Pushes changes of several deployments, and injects two faults at one moment of the first deploy that reaches it. */
function toPair({ fault, deployments, waits }: PairOrder): Command {
  const end = waits ? ", until both are over" : "";
  return command(`push of ${deployments.join(", ")} and ${describeFault(fault)}${end}`, async (model, real) => {
    await real.faults.strike(fault);
    for (const deployment of deployments) await changeAll(deployment, fault.victim, model, real);
    await waitForStrike(fault, real, waits ? longPatienceMs : patienceMs);
    const lastsMs = Math.max(fault.forMs ?? 0, fault.second?.forMs ?? 0);
    if (waits) await sleep(lastsMs, undefined, { signal: real.signal });
  });
}

async function waitForStrike(fault: Fault, { faults }: Real, withinMs = patienceMs): Promise<void> {
  const from = performance.now();
  while (faults.isArmed(fault) && performance.now() - from < withinMs) await sleep(20);
}

async function changeAll(index: number, to: number, model: Model, real: Real): Promise<Push> {
  const deployment = planOf(real, index);
  const repository = repositoryOf(real, deployment.repo);
  const color = `color-${++model.pushes}`;
  const { plan } = real.stage;
  const change = objectNames.map(
    (name) => [plan.contentFile(deployment, name), plan.content(deployment, name, color)] as const,
  );
  const push = await repository.push([new Map(change)], "Change all");
  await deliver(push, { delivery: "delivered", to }, real);
  return push;
}

async function takeBack(index: number, order: DeliveryOrder, real: Real): Promise<void> {
  const repository = repositoryOf(real, planOf(real, index).repo);
  const push = await repository.push([changesBack(repository)], "Change all back");
  await deliver(push, order, real);
}

interface DeliveryOrder {
  readonly delivery: DeliveryKind;
  readonly to: number;
}

function deliver(push: Push, order: DeliveryOrder, real: Real): Promise<void> {
  return deliverTo(order, real, (replica) => real.stage.deliver(push, replica));
}

async function deliverTo(
  { delivery, to }: DeliveryOrder,
  { stage, late }: Real,
  sendTo: (replica: Replica) => Promise<number>,
): Promise<void> {
  const replica = stage.replicas[to % stage.replicas.length];
  if (replica === undefined || delivery === "dropped") return;
  const send = () => sendTo(replica);
  if (delivery === "late") return void late.push(send);
  const sent = send();
  if (delivery === "killed while delivered") {
    await sleep(to * 5); // before the delivery is queued, while it is, or afterwards
    replica.kill("SIGKILL");
  }
  await sent;
  if (delivery === "delivered twice") await send();
}

async function waitForRun(real: Real, name: string, { commit }: Push, until: string): Promise<void> {
  if (until === "nothing") return;
  const from = performance.now();
  const isThere = () =>
    real.stage.journal
      .runs()
      .some(
        (run) =>
          run.deployment === name && run.commit === commit && run.mutating && (until === "a run" || run.wrote > 0),
      );
  while (!isThere() && performance.now() - from < patienceMs) await sleep(20);
}

function toSetBack([index, delivery]: readonly [number, DeliveryKind]): Command {
  return command(`force-push of ${index} to the commit before (${delivery})`, async (_, real) => {
    const repository = repositoryOf(real, planOf(real, index).repo);
    const before = repository.commits().at(-2);
    if (before !== undefined) await deliver(await repository.setBack(before), { delivery, to: index }, real);
  });
}

function toRewrite([index, delivery]: readonly [number, DeliveryKind]): Command {
  return command(`rewrite of ${index}'s head (${delivery})`, async (_, real) => {
    const push = await repositoryOf(real, planOf(real, index).repo).rewrite();
    await deliver(push, { delivery, to: index }, real);
  });
}

function toDeleteBranch({ deployment: index, delivery, moves }: BranchOrder): Command {
  const back = moves ? "at another commit" : "as it was";
  return command(`delete ${index}'s branch (${delivery}), and make it again ${back}`, async (model, real) => {
    const deployment = planOf(real, index);
    const repository = repositoryOf(real, deployment.repo);
    const order = { delivery, to: index };
    if (repository.head() !== undefined) await deliver(await repository.deleteBranch(), order, real);
    await waitForWords(real, 3);
    const { plan } = real.stage;
    const content = plan.content(deployment, objectNames[0], `color-${++model.pushes}`);
    const change = new Map([[plan.contentFile(deployment, objectNames[0]), content]]);
    const push = await (moves ? repository.push([change], "Begin again") : repository.restoreBranch());
    await deliver(push, { delivery: "delivered", to: index }, real);
  });
}

function toLate(): Command {
  return command("deliver what is late, the newest first", async (_, { late }) => {
    for (const send of late.splice(0).reverse()) await send();
  });
}

function toEdit(index: number): Command {
  return command(`edit the spec of ${index}`, async (model, real) => {
    const deployment = planOf(real, index);
    await real.stage.people.patch(deployment, { spec: { args: { edit: ++model.pushes } } });
  });
}

function toSuspend(index: number): Command {
  return command(`suspend or resume ${index}`, async ({ suspended }, real) => {
    const deployment = planOf(real, index);
    const suspend = !suspended.has(deployment.name);
    if (suspend) suspended.add(deployment.name);
    else suspended.delete(deployment.name);
    await real.stage.people.patch(deployment, { spec: { suspend } });
  });
}

/** As `kluctl gitops` writes it. */
function toRequest({ deployment, kind, dryRun }: RequestOrder): Command {
  return command(`request ${kind} of ${deployment}${dryRun ? " as a dry run" : ""}`, async (model, real) => {
    const overrides = dryRun && { overridesPatch: { spec: { dryRun } } };
    const request = JSON.stringify({ requestValue: `request-${++model.pushes}`, ...overrides });
    const annotations = { [`kluctl.io/request-${kind}`]: request };
    await real.stage.people.patch(planOf(real, deployment), { metadata: { annotations } });
  });
}

function toRecreate(index: number): Command {
  return command(`delete and create ${index} again`, async ({ suspended }, real) => {
    const deployment = planOf(real, index);
    suspended.delete(deployment.name);
    await Promise.all(real.pending.splice(0)); // creations run one after the other
    await real.stage.people.remove(deployment);
    real.pending.push(real.stage.people.create(deployment));
  });
}

function toTamper([index, object, destroys]: readonly [number, number, boolean]): Command {
  const name = objectNames[object] as string;
  return command(`${destroys ? "delete" : "touch"} object ${name} of ${index}`, async (_, { stage, ...real }) => {
    const deployment = planOf({ stage, ...real }, index);
    await (destroys ? stage.people.destroy(deployment, name) : stage.people.touch(deployment, name));
  });
}

function toApprove(): Command {
  return command("approve what waits", async (_, { stage }) => {
    for (const deployment of stage.plan.deployments.filter(({ spec }) => spec["manual"] === true)) {
      const manualObjectsHash = stage.ledger.liveStatuses().get(deployment.name)?.status.lastObjectsHash;
      if (manualObjectsHash !== undefined) await stage.people.patch(deployment, { spec: { manualObjectsHash } });
    }
  });
}

function toOpen(order: PullOrder): Command {
  return command(`open a pull request of ${order.deployment}.${order.object} (${order.delivery})`, (model, real) =>
    openOne(order, model, real),
  );
}

async function openOne(order: PullOrder, model: Model, real: Real): Promise<void> {
  const deployment = planOf(real, order.deployment);
  const object = objectNames[order.object] as string;
  const event = await real.stage.pullRequests?.open(deployment, object, `color-${++model.pushes}`);
  await deliverEvent(event, order, real);
}

async function deliverEvent(event: PullRequestEvent | undefined, order: DeliveryOrder, real: Real): Promise<void> {
  if (event === undefined) return void real.story.push("  the host refuses");
  real.story.push(`  ${event.action} ${event.repository.name}#${event.number}`);
  await deliverTo(order, real, (replica) => real.stage.deliverPullRequest(event, replica));
}

/** Acts on a pull request opened earlier, or opens one if there is none. */
function onPull(
  words: string,
  order: PullOrder,
  act: (all: PullRequests, pull: PullRequest, model: Model) => Promise<PullRequestEvent | undefined>,
): Command {
  return command(`${words} pull request ${order.pull} (${order.delivery})`, async (model, real) => {
    const all = real.stage.pullRequests;
    const pull = all?.all[order.pull % all.all.length];
    if (all === undefined || pull === undefined) return openOne(order, model, real);
    await deliverEvent(await act(all, pull, model), order, real);
  });
}

function toPushToPull([order, rebase]: readonly [PullOrder, boolean]): Command {
  return onPull(rebase ? "rebase" : "push to", order, (all, pull, model) =>
    all.push(pull, `color-${++model.pushes}`, rebase),
  );
}

function toRetarget(order: PullOrder): Command {
  return onPull("retarget", order, (all, pull) => all.retarget(pull));
}

function toClose(order: PullOrder): Command {
  return onPull("close or reopen", order, (all, pull) => all.close(pull));
}

function toMerge([order, style]: readonly [PullOrder, MergeStyle]): Command {
  return command(`${style} pull request ${order.pull} (${order.delivery})`, async (model, real) => {
    const all = real.stage.pullRequests;
    const pull = all?.all[order.pull % all.all.length];
    if (all === undefined || pull === undefined) return openOne(order, model, real);
    const merged = await all.merge(pull, style);
    if (merged) await deliver(merged.push, order, real);
    await deliverEvent(merged?.event, order, real);
  });
}

/** Injects a fault around a comment: that of a new pull request, or of a push to one. */
function toPullStrike([order, fault]: readonly [PullOrder, Fault]): Command {
  return command(`propose ${order.deployment}.${order.object} and ${describeFault(fault)}`, async (model, real) => {
    await real.faults.strike(fault);
    const told = { ...order, delivery: "delivered" } as const;
    if (order.pull % 2 === 0) await openOne(told, model, real);
    else await toPushToPull([told, true]).run(model, real);
    await waitForStrike(fault, real);
  });
}

function toFault(order: Fault): Command {
  return command(describeFault(order), (_, { faults }) => faults.strike(order));
}

function describeFault({ name, victim, moment, forMs, buries, second }: Fault): string {
  const when = moment ? ` at ${moment.event}${moment.number || ""}` : ` of r${victim + 1}`;
  const howLong = forMs === undefined ? "" : ` for ${forMs / seconds} s`;
  const words = `fault: ${name}${when}${howLong}${buries ? ", for good" : ""}`;
  return second ? `${words}; ${describeFault({ ...second, moment })}` : words;
}

function toRestart(): Command {
  return command("start replicas that are dead", async (_, { stage }) => {
    for (const replica of stage.replicas) if (!stage.buried.has(replica)) await replica.start();
  });
}

/** Replaces a replica as a rolling update does, with its jobs queued and running. */
function toReplace(index: number): Command {
  return command(`replace r${index + 1}`, async (_, { stage, story }) => {
    const replica = stage.replicas[index % stage.replicas.length];
    if (replica === undefined || stage.buried.has(replica)) return;
    await replica.roll();
    story.push(`  ${replica.name} is of version ${replica.version()} now`);
  });
}

/** The API server is unreachable for all replicas; requests made meanwhile must be carried out afterwards. */
function toOutage(ms: number): Command {
  return command(`the API server is away for ${ms / seconds} s`, async (_, { faults, signal }) => {
    await faults.strike({ name: "API away", victim: 0, forMs: ms, buries: false });
    await sleep(ms, undefined, { signal });
  });
}

function toPause(): Command {
  return command("let things happen", (_, real) => waitForWords(real, 6));
}

async function waitForWords({ stage }: Real, count: number): Promise<void> {
  const wanted = stage.journal.words() + count;
  const from = performance.now();
  while (stage.journal.words() < wanted && performance.now() - from < patienceMs / 2) await sleep(20);
}
