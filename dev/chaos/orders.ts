/** What fast-check draws for the commands of an episode: pushes, pull requests, faults, and their details. */
import fc from "fast-check";
import {
  apiFaults,
  commentMoments,
  endings,
  type Fault,
  faultNames,
  forgeFaultNames,
  moments,
  redisFaults,
} from "./faults.ts";
import { objectNames } from "./projects.ts";

/** The traits of the episode that the commands are drawn for. */
export interface Traits {
  readonly isShort: boolean;
  /** There is a second version to replace servers with. */
  readonly replaces: boolean;
  /** The episode has pull requests. */
  readonly proposes: boolean;
  /** No server ends or starts. One that starts compares everything, and so repairs what the others have forgotten. */
  readonly keepsServers: boolean;
  /** The real kluctl deploys, which does not report when it writes what. */
  readonly isReal: boolean;
}

const pushKinds = [
  "change",
  "change",
  "change",
  "revert",
  "revert",
  "change outside",
  "change and back",
  "add object",
  "add object",
  "remove object",
  "change included",
  "break",
  "mend",
] as const;
const deliveryKinds = [
  "delivered",
  "delivered",
  "dropped",
  "delivered twice",
  "late",
  "killed while delivered",
] as const;
const waits = ["nothing", "a run", "an object"] as const;
const requests = ["reconcile", "deploy", "diff", "validate", "prune"] as const;

const seconds = 1_000;

/** Half of the faults hit processes, or Redis together with a process as when a machine is lost. */
const processFaults = [
  "kill",
  "kill",
  "kill and flush",
  "kill and flush",
  "freeze",
  "kill kluctl",
  "kill starter",
  "end starter",
] as const satisfies readonly Fault["name"][];
/** Redis forgets jobs. */
const losses = ["Redis flushed", "Redis lost", "Redis goes back"] as const satisfies readonly Fault["name"][];
/** Nothing can be read from the API server or written to it. */
const outages = ["API away", "API silent"] as const satisfies readonly Fault["name"][];

/** Durations of a fault that strikes alone; the longest is that of a Lease. */
const usual = [2 * seconds, 5 * seconds, 12 * seconds] as const;
/** Durations of two faults at one moment: half a Lease, a Lease, and longer than one. */
const lasting = [5 * seconds, 12 * seconds, 20 * seconds] as const;

/** Index of a deployment. */
const deployment = fc.nat({ max: 11 });
/** Index of a deployment whose deletion deletes its objects. */
const deleting = fc.constant(9);
const replica = fc.nat({ max: 2 });
const object = fc.nat({ max: objectNames.length - 1 });

export interface PushOrder {
  readonly kind: (typeof pushKinds)[number];
  readonly deployment: number;
  readonly object: number;
  readonly delivery: DeliveryKind;
  readonly to: number;
  readonly until: (typeof waits)[number];
}

export type DeliveryKind = (typeof deliveryKinds)[number];

/** A change that is taken back while kluctl applies it. */
export interface RegretOrder {
  readonly deployment: number;
  readonly delivery: DeliveryKind;
  readonly to: number;
}

/** A fault at a moment of the deploy of a change. */
export interface StrikeOrder {
  readonly fault: Fault;
  readonly deployment: number;
  readonly regrets: boolean;
  readonly delivery: DeliveryKind;
}

/** Two faults at one moment, while changes of several deployments are applied. */
export interface PairOrder {
  readonly fault: Fault;
  readonly deployments: readonly number[];
  /** Nothing else happens until the faults are over. */
  readonly waits: boolean;
}

/** A branch is deleted and created again. */
export interface BranchOrder {
  readonly deployment: number;
  /** How the deletion is delivered. */
  readonly delivery: DeliveryKind;
  /** The new branch has another commit. */
  readonly moves: boolean;
}

export interface RequestOrder {
  readonly deployment: number;
  readonly kind: (typeof requests)[number];
  readonly dryRun: boolean;
}

export interface PullOrder {
  /** Index among the pull requests opened so far; if there is none, one is opened. */
  readonly pull: number;
  readonly deployment: number;
  readonly object: number;
  readonly delivery: DeliveryKind;
  readonly to: number;
}

export type Orders = ReturnType<typeof createOrders>;

/** What can be drawn in an episode with these traits. */
export function createOrders(traits: Traits) {
  const delivery = fc.constantFrom(
    ...deliveryKinds.filter((kind) => !traits.keepsServers || kind !== "killed while delivered"),
  );
  const { fault, pair } = createFaultOrders(traits);
  const unreported: readonly string[] = traits.isReal ? ["patched", "writing"] : [];
  const moment = fc.constantFrom(...moments.filter(({ event }) => !unreported.includes(event)));
  const pull = fc.record<PullOrder>({ pull: fc.nat({ max: 5 }), deployment, object, delivery, to: replica });
  return {
    delivery,
    deployment,
    fault,
    replica,
    object,
    deleting,
    branch: fc.record<BranchOrder>({ deployment, delivery, moves: fc.boolean() }),
    request: fc.record<RequestOrder>({
      deployment,
      kind: fc.constantFrom(...requests),
      dryRun: fc.constantFrom(false, false, false, true),
    }),
    push: fc.record<PushOrder>({
      kind: fc.constantFrom(...pushKinds),
      deployment,
      object,
      delivery,
      to: replica,
      until: fc.constantFrom(...waits.filter((wait) => !traits.isReal || wait !== "an object")),
    }),
    regret: fc.record<RegretOrder>({ deployment, delivery, to: replica }),
    strike: fc.record<StrikeOrder>({
      fault: fc.tuple(fault, moment).map(([drawn, at]) => ({ ...drawn, moment: at })),
      deployment,
      regrets: fc.constantFrom(true, false, false),
      delivery,
    }),
    pair: fc.record<PairOrder>({
      fault: fc.tuple(pair, moment).map(([drawn, at]) => ({ ...drawn, moment: at })),
      deployments: fc.uniqueArray(deployment, { minLength: 1, maxLength: 4, size: "max" }),
      waits: fc.boolean(),
    }),
    pull,
    pullStrike: fc.tuple(
      pull,
      fc.tuple(fault, fc.constantFrom(...commentMoments)).map(([drawn, at]): Fault => ({ ...drawn, moment: at })),
    ),
  };
}

function createFaultOrders({ proposes, keepsServers }: Traits) {
  const among = (names: readonly Fault["name"][]) =>
    fc.constantFrom(...names.filter((name) => !keepsServers || !endings.includes(name)));
  const mostly = (chosen: readonly Fault["name"][], all: readonly Fault["name"][]) =>
    fc.oneof({ weight: 3, arbitrary: among(chosen) }, { weight: 1, arbitrary: among(all) });
  const ended = {
    victim: replica,
    buries: fc.constantFrom(true, false, false, false),
    restartsAfterMs: fc.integer({ min: 1 * seconds, max: 5 * seconds }),
  };
  const details = fc.record({ ...ended, forMs: fc.option(fc.constantFrom(...usual), { nil: undefined }) });
  // Two faults that last until everything is healed would leave no server for the pairs that follow.
  const lastingDetails = fc.record({ ...ended, forMs: fc.constantFrom(...lasting) });

  const any = fc.oneof(
    { weight: 3, arbitrary: among(processFaults) },
    { weight: 3, arbitrary: among(faultNames) },
    { weight: proposes ? 2 : 0, arbitrary: among(forgeFaultNames) },
  );
  // Two of three pairs hit Redis and the API server: each is there to make up for what the other one loses.
  const two = fc.oneof(
    { weight: 2, arbitrary: fc.tuple(mostly(losses, redisFaults), mostly(outages, apiFaults)) },
    { weight: 1, arbitrary: fc.tuple(any, any) },
  );
  const fault = fc.tuple(any, details).map(([name, drawn]): Fault => ({ name, ...drawn }));
  const pair = fc
    .tuple(two, fc.boolean(), lastingDetails, lastingDetails)
    .filter(([[one, other]]) => one !== other)
    .map(([names, isSwapped, first, second]): Fault => {
      const [name, other] = isSwapped ? ([names[1], names[0]] as const) : names;
      return { name, ...first, second: { name: other, ...second } };
    });
  return { fault, pair };
}
