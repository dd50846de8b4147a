/** A notification as an event of Flux: https://github.com/fluxcd/pkg/blob/main/apis/event/v1beta1/event.go. Pure. */
import type { NoticeLink, Notification, Severity } from "../../model.ts";
import { limitTexts } from "../fit.ts";
import { joinLines, toPlain, toPlainLine } from "../plain.ts";

export interface FluxEvent {
  readonly involvedObject: InvolvedObject;
  readonly severity: "info" | "error";
  readonly timestamp: string;
  readonly message: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly reportingController: "towline";
  readonly reportingInstance: string;
}

/** Flux's own controllers send no event without kind, namespace and name: Alerts select events by these three. */
interface InvolvedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string;
}

/** The limit of Flux's definition of an event, in characters; Slack rejects texts of more than 40 000. */
const longestMessage = 39_000;
/** Providers show it in a field of its own; Slack's have room for 2 000 characters. */
const longestSummary = 1_000;

/** Flux has no warnings: its definition of `error` includes them. An Alert selects either `error` or everything. */
const fluxSeverities = { info: "info", warning: "error", error: "error" } as const satisfies Record<Severity, string>;

export function toEvent(whole: Notification): FluxEvent {
  const message = limitTexts(whole);
  const { kind, state, severity, at, cluster } = message;
  const involvedObject = toInvolvedObject(message);
  return {
    involvedObject,
    severity: fluxSeverities[severity],
    timestamp: new Date(at).toISOString(),
    message: toText(message),
    reason: toCamelCase(kind, state),
    metadata: toMetadata(message, involvedObject.apiVersion),
    reportingController: "towline",
    reportingInstance: cluster,
  };
}

/**
 * Without a deployment, the event is one of Flux's own namespace, where an Alert whose sources name no namespace selects
 * it. It is not derived from the lines, whose names can be texts of users. The kind is that of all other events, because
 * users have to add each kind to the definition of Alerts.
 */
function toInvolvedObject({ object, thread }: Notification): InvolvedObject {
  if (object === undefined)
    return { apiVersion: "gitops.kluctl.io/v1beta1", kind: "KluctlDeployment", namespace: "flux-system", name: thread };
  const { apiVersion, kind, namespace, name, uid } = object;
  return { apiVersion, kind, namespace, name, uid };
}

function toText({ title, lines, linesLeftOut, links }: Notification): string {
  const problems = lines.map(toPlainLine);
  return joinLines([toPlain(title), ...problems], linesLeftOut, links.map(toLink), longestMessage);
}

/** Without the characters that end an address or begin a mention in some chat. */
function toLink({ label, url }: NoticeLink): string {
  const { origin, pathname, search, hash } = new URL(url);
  const path = `${pathname}${search}${hash}`.replace(
    /[()[\]@|*~]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  );
  return `${toPlain(label)}: ${origin}${path}`;
}

/** The controller drops metadata whose keys do not begin with the API group of the object. */
function toMetadata({ id, facts }: Notification, apiVersion: string): Record<string, string> {
  const group = /^(.*)\//.exec(apiVersion)?.[1];
  const prefix = group === undefined ? "" : `${group}/`;
  const revision = findRevision(facts);
  const summary = joinLines(
    facts.map(({ label, value }) => toPlain(`${label}: ${value}`)),
    0,
    [],
    longestSummary,
  ).replaceAll("\n", ", ");
  return {
    // Part of what the controller recognizes a duplicate by, and not shown: a retry is one, a second failure is not.
    [`${prefix}token`]: id,
    ...(revision !== undefined && { [`${prefix}revision`]: revision }),
    ...(summary !== "" && { [`${prefix}summary`]: summary }),
  };
}

/** Flux's notation for a commit: `main@sha1:3f2c1ab`, or without the branch if it is not known. */
function findRevision(facts: Notification["facts"]): string | undefined {
  const find = (wanted: string) => facts.find(({ label }) => label === wanted)?.value;
  const commit = /^[\da-f]{7,64}(?=\s|$)/.exec(find("Commit") ?? "")?.[0];
  if (commit === undefined) return undefined;
  const branch = find("Branch");
  const digest = `${commit.length > 40 ? "sha256" : "sha1"}:${commit}`;
  return branch === undefined ? digest : `${toPlain(branch)}@${digest}`;
}

function toCamelCase(...words: readonly string[]): string {
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join("");
}
