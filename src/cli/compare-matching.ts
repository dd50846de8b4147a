/** Compares which deployments a recorded delivery affects with one configuration and with another, by the server's intake. */
import type { Config } from "../config.ts";
import { genuine } from "../forge/webhook-source.ts";
import { type AnyDeployment, keyText } from "../model.ts";
import { type RecordedDelivery, toGitEvent } from "../model/recorded-delivery.ts";
import { createExplainer } from "./explain-delivery.ts";

export interface Setup {
  readonly config: Pick<Config, "forges" | "preview" | "kubernetes">;
  /** All deployments, also those in namespaces that the configuration does not watch. */
  readonly deployments: readonly AnyDeployment[];
}

/** A deployment that only one of the setups affects. */
export interface AffectedOnce {
  /** `namespace/name` */
  readonly deployment: string;
  readonly as: "reconcile" | "preview";
  /** Why the other setup does not affect it. */
  readonly why: string;
}

/** What the second setup does otherwise with a delivery. */
export interface MatchingDifference {
  readonly at: number;
  readonly forge: string;
  readonly delivery: string;
  readonly event: RecordedDelivery["event"]["kind"];
  readonly repoName: string;
  readonly ref?: string | undefined;
  readonly pullRequest?: number | undefined;
  readonly commit?: string | undefined;
  /** The push's paths were too many to be recorded, so that every path counts as changed. */
  readonly pathsOmitted?: true | undefined;
  readonly gained: readonly AffectedOnce[];
  readonly lost: readonly AffectedOnce[];
  /**
   * It affects no deployment, and yet one setup handles it and the other ignores it: pull requests and merge groups get a
   * status in any case.
   */
  readonly handled?: { readonly before: boolean; readonly after: boolean; readonly why: string } | undefined;
}

/** How one setup handles a delivery. */
interface Handling {
  readonly isHandled: boolean;
  readonly affected: ReadonlyMap<string, AffectedOnce["as"]>;
  /** Why a deployment is not affected; without one: why the delivery is ignored. */
  whyNot(deployment?: string): string;
}

/** Returns `undefined` for a delivery that both handle in the same way. */
export function createComparison(before: Setup, after: Setup) {
  const [handleBefore, handleAfter] = [createHandler(before), createHandler(after)];

  return async function compare(delivery: RecordedDelivery): Promise<MatchingDifference | undefined> {
    const [was, becomes] = [await handleBefore(delivery), await handleAfter(delivery)];
    const [gained, lost] = [onlyIn(becomes, was), onlyIn(was, becomes)];
    if (gained.length + lost.length > 0) return { ...describe(delivery), gained, lost };
    if (was.isHandled === becomes.isHandled) return undefined;
    const why = (was.isHandled ? becomes : was).whyNot();
    return { ...describe(delivery), gained, lost, handled: { before: was.isHandled, after: becomes.isHandled, why } };
  };
}

function onlyIn(one: Handling, other: Handling): AffectedOnce[] {
  return [...one.affected]
    .filter(([deployment, as]) => other.affected.get(deployment) !== as)
    .map(([deployment, as]) => ({ deployment, as, why: other.whyNot(deployment) }));
}

function describe({ at, forge, delivery, event }: RecordedDelivery) {
  const facts = { at, forge, delivery, event: event.kind, repoName: event.repoName };
  switch (event.kind) {
    case "push":
      return { ...facts, ref: event.ref, commit: event.after, pathsOmitted: event.pathsOmitted };
    case "pull-request":
      return { ...facts, pullRequest: event.number, ref: event.baseBranch, commit: event.head };
    case "merge-group":
      return { ...facts, ref: event.branch, commit: event.commit };
  }
}

function createHandler({ config, deployments }: Setup) {
  const { namespaces } = config.kubernetes;
  const isWatched = ({ key }: AnyDeployment) => namespaces.length === 0 || namespaces.includes(key.namespace);
  const explain = createExplainer({ config, deployments: deployments.filter(isWatched) });
  const byName = new Map(deployments.map((deployment) => [keyText(deployment.key), deployment]));

  function whyAbsent(name: string): string | undefined {
    const deployment = byName.get(name);
    if (deployment === undefined) return "there is no such KluctlDeployment";
    if (!isWatched(deployment)) return `namespace ${deployment.key.namespace} is not watched (kubernetes.namespaces)`;
    return "problem" in deployment ? `its resource is invalid: ${deployment.problem}` : undefined;
  }

  return async function handle(delivery: RecordedDelivery): Promise<Handling> {
    const refusal = whyRefused(delivery, config.forges);
    if (refusal !== undefined) return { isHandled: false, affected: new Map(), whyNot: () => refusal };
    const explanation = await explain({ event: toGitEvent(delivery), verdict: genuine });
    const { matched, previews, ignored, reason, jobs } = explanation;
    const reasons = new Map(ignored.map((one) => [one.deployment, one.reason]));
    const affected = new Map([
      ...matched.map((name) => [name, "reconcile"] as const),
      ...previews.map((name) => [name, "preview"] as const),
    ]);
    const whole = reason ?? "it affects no deployment";
    return {
      isHandled: jobs > 0,
      affected,
      whyNot: (name) =>
        name === undefined ? whole : (whyAbsent(name) ?? reasons.get(name) ?? reason ?? whyWithheld(delivery)),
    };
  };
}

/** Why the address of the webhook would not accept the delivery. Its signature is not recorded, and cannot be checked. */
function whyRefused({ forge: id, host }: RecordedDelivery, forges: Config["forges"]): string | undefined {
  const forge = forges.find((one) => one.id === id);
  if (forge === undefined) return `no forge ${id} is configured: its webhooks would get 404`;
  if (!forge.webhooks) return `forge ${id} has webhooks: false, so its webhooks would get 404`;
  if (forge.kind !== host) return `forge ${id} has kind ${forge.kind}: deliveries of ${host} would be rejected`;
  return undefined;
}

/** For a deployment of another source, or one whose preview of a fork is not allowed. */
function whyWithheld({ event }: RecordedDelivery): string {
  return event.kind === "pull-request" && event.fork
    ? "the pull request comes from a fork, whose code is not run"
    : "it follows another repository";
}
