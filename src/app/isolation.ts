/**
 * Determines at the start which parts of the isolation of previews are in force, and reports it in the log, metrics and
 * doctor.
 */
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { Config } from "../config.ts";
import { PreviewRefusedError } from "../errors.ts";
import { type KernelJail, probeJail } from "../jail/probe.ts";
import type { Confine } from "../kluctl/confine.ts";
import type { Logger } from "../log.ts";
import type { RunnerReport } from "../preview-runner/task.ts";
import { type Finding, ok, problem, warning } from "../doctor/finding.ts";

export const isolationProperties = ["files", "processes", "credentials", "network"] as const;

type Property = (typeof isolationProperties)[number];

export interface Isolation {
  readonly mode: "required" | "auto";
  /** The properties in force, with the mechanism that provides each. */
  readonly provided: Partial<Readonly<Record<Property, string>>>;
  /** The missing properties, with the reason and the fix. */
  readonly missing: Partial<Readonly<Record<Property, string>>>;
  /** The preview runner that renders previews, if there is one. */
  readonly runner?: string | undefined;
  /** Whether the runner does not respond, so that its isolation is unknown. */
  readonly unanswered?: boolean | undefined;
}

const providers: Readonly<Record<Property, string>> = {
  files: "Landlock",
  processes: "seccomp",
  credentials: "a proxy before the API server",
  network: "Landlock and seccomp: only Towline's proxies can be reached",
};

/** Returns `undefined` if previews are not to be confined. */
export async function findIsolation({ preview }: Pick<Config, "preview">, dir: string): Promise<Isolation | undefined> {
  if (preview.isolation === "off") return undefined;
  return examineMachine(preview.isolation, dir);
}

/** Examines the kernel of this machine. */
export async function examineMachine(mode: Isolation["mode"], dir: string): Promise<Isolation> {
  const found = await probe(dir);
  const why: Record<Property, string | undefined> = { ...found, credentials: undefined };
  const provided: Isolation["provided"] = {};
  const missing: Isolation["missing"] = {};
  for (const property of isolationProperties) {
    const text = why[property];
    Object.assign(text === undefined ? provided : missing, { [property]: text ?? providers[property] });
  }
  return { mode, provided, missing };
}

/** A failure here does not prevent the start, because a server that only deploys does not need the isolation. */
async function probe(dir: string): Promise<KernelJail> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    return await probeJail(dir);
  } catch (error) {
    const untried = `the test could not run: ${(error as Error).message}`;
    return { files: untried, processes: untried, network: untried };
  }
}

/**
 * Evaluates the properties known here in a runner's report; a property that the report does not mention is not in
 * force.
 */
export function toIsolation(
  mode: Isolation["mode"],
  runner: string,
  said: RunnerReport | Error | undefined,
): Isolation {
  const provided: Isolation["provided"] = {};
  const missing: Isolation["missing"] = {};
  for (const property of isolationProperties) {
    const by = said === undefined || said instanceof Error ? undefined : said.provided[property];
    const why = said === undefined ? "the preview runner has not responded yet" : said instanceof Error ? said.message : said.missing[property]; // prettier-ignore
    Object.assign(by === undefined ? missing : provided, {
      [property]: by ?? why ?? "the preview runner does not report it",
    });
  }
  const unanswered = said === undefined || said instanceof Error;
  return { mode, runner, provided, missing, ...(unanswered && { unanswered }) };
}

/** Why no preview is rendered; `undefined` if previews are rendered. */
export function refusalOf({ mode, missing }: Isolation): string | undefined {
  const texts = Object.entries(missing).map(([property, why]) => `${property}: ${why}`);
  if (texts.length === 0) return undefined;
  // Nothing is started without seccomp filters: without them, the other parts of the sandbox are useless.
  if (missing.processes !== undefined) return `pull requests are not rendered here: ${missing.processes}`;
  if (mode === "auto") return undefined;
  return `pull requests are not rendered here, because preview.isolation is "required" and part of the isolation is missing. ${texts.join(". ")}. With preview.isolation: auto they are rendered with the isolation that is available.`;
}

/**
 * Why forks are not rendered although this is configured: untrusted code needs the complete isolation. The text is
 * shown to untrusted users, too.
 */
export function refusalOfForks(isolation: Isolation | undefined): string | undefined {
  if (mayRenderOffline(isolation)) return undefined;
  return "This server is configured to render forks in isolation, but cannot isolate them (`towline doctor` shows why)";
}

/** Why child deployments are not rendered, as part of a sentence for authors. */
export function refusalOfChildren(isolation: Isolation | undefined): string | undefined {
  if (mayRenderOffline(isolation)) return undefined;
  return "this server cannot isolate previews completely, and its operator can see why with `towline doctor`";
}

/** What is rendered without the cluster needs the complete isolation. */
function mayRenderOffline(isolation: Isolation | undefined): boolean {
  // Each run asks the runner itself and is retried if it does not respond.
  if (isolation?.unanswered) return true;
  return isolation !== undefined && Object.keys(isolation.missing).length === 0;
}

/** What happens to pull requests from forks that have not been allowed. */
export function forksOf({ preview }: Pick<Config, "preview">, isolation: Isolation | undefined): Forks {
  if (!preview.enabled || preview.forks === "off") return "off";
  if (isolation?.unanswered) return "waiting";
  return isolation !== undefined && Object.keys(isolation.missing).length === 0 ? "isolated" : "refused";
}

/** `refused`: isolation is not in force. `waiting`: the runner does not respond. */
export type Forks = "off" | "isolated" | "refused" | "waiting";

/** Rejects runs before anything is opened for them if the required isolation is missing. */
export function refusing(isolation: Isolation, confine: Confine): Confine {
  const refusal = refusalOf(isolation);
  return refusal === undefined ? confine : { open: () => Promise.reject(new PreviewRefusedError(refusal)) };
}

/** What the kernel has to provide for each run; otherwise the run does not start. */
export function toDemands({ missing }: Isolation): { readonly files: boolean; readonly network: boolean } {
  return { files: missing.files === undefined, network: missing.network === undefined };
}

export function logIsolation(isolation: Isolation, forks: Forks, log: Logger): void {
  const { mode, runner, provided, missing } = isolation;
  const place = { mode, ...(runner !== undefined && { runner }), ...(forks !== "off" && { forks }) };
  if (isolation.unanswered)
    log.error({ ...place, error: missing.files }, "previews blocked: waiting for the preview runner");
  else if (Object.keys(missing).length === 0) log.info({ ...place, ...provided }, "previews are confined");
  else if (refusalOf(isolation) === undefined)
    log.warn({ ...place, provided, missing }, "previews are only partly confined");
  else log.error({ ...place, provided, missing }, "previews are rejected: they cannot be confined");
}

/** For `towline doctor`: examines the machine it runs on, or uses the report of a runner. */
export async function examineIsolation(config: Pick<Config, "preview">, atRunner?: Isolation): Promise<Finding[]> {
  if (!config.preview.enabled) return [];
  const isolation = atRunner ?? (await findIsolation(config, tmpdir()));
  if (isolation === undefined) return [];
  const subject = "isolation of previews";
  const { mode, runner, provided, missing } = isolation;
  if (isolation.unanswered) return [problem(subject, missing.files ?? "", "until then previews fail and are retried")];
  const held = Object.entries(provided).map(([property, by]) => `${property} (${by})`);
  const forks = forksOf(config, isolation);
  const withheld = forks === "refused" ? ", and nothing of forks is rendered" : "";
  const included = forks === "isolated" ? "; forks are rendered there too, without the cluster" : "";
  const place = runner === undefined ? "on this machine" : `at the preview runner ${runner}`;
  const lacking = Object.entries(missing).map(([property, why]) =>
    mode === "required"
      ? problem(
          subject,
          `${property}: ${why}`,
          "until then previews are rejected; preview.isolation: auto renders them with the isolation that is available",
        )
      : warning(subject, `${property}: ${why}`, `until then a branch can do more than render${withheld}`),
  );
  return lacking.length > 0 ? lacking : [ok(subject, `${place}: ${held.join(", ")}${included}`)];
}
