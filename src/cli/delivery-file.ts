/** A delivery as people have it: recorded, copied from the host's page, or only its payload. */
import { z } from "zod";
import type { ForgeConfig } from "../config.ts";
import type { ForgeKind } from "../forge/webhook-source.ts";
import { parseJson } from "../json.ts";
import type { ProgramDeps } from "./commands.ts";
import { readFile } from "./configuration.ts";

export interface GivenDelivery {
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface DeliveryFlags {
  readonly forge?: string;
  readonly event?: string;
  readonly header?: readonly string[];
}

export const deliveryHelp = `
FILE is one of these; without FILE, or with -, it is read from stdin:
  the payload alone           as the host's page of recent deliveries shows it. The event is read off it, or given
                              with --event; headers with -H 'Name: value'
  headers, empty line, body   as they came over the wire
  JSON {"headers", "body"}    as recorders write it; also with rawHeaders, a list of names and values in turn`;

const Recorded = z.object({
  rawHeaders: z.array(z.string()).optional(),
  headers: z.record(z.string(), z.union([z.string(), z.array(z.string())])).optional(),
  body: z.unknown(),
});

/** Throws with what to do about it. */
export async function readDelivery(
  file: string | undefined,
  { header = [] }: DeliveryFlags,
  { stdin }: Pick<ProgramDeps, "stdin">,
): Promise<GivenDelivery> {
  const fromStdin = file === undefined || file === "-";
  const text = fromStdin ? await stdin() : readFile(file);
  const where = fromStdin ? "stdin" : file;
  if (text.trim() === "") throw new Error(`${where} is empty: give a delivery, see --help`);
  const { rawHeaders, body } = parseDelivery(text, where);
  return { rawHeaders: [...rawHeaders, ...header.flatMap(parseHeader)], body: Buffer.from(body) };
}

function parseDelivery(text: string, where: string): { rawHeaders: string[]; body: string } {
  const json = parseJson(text);
  if (json === undefined) {
    const [, head = "", body = ""] = /^((?:[^\r\n]+\r?\n)+)\r?\n([\s\S]*)$/.exec(text.trimStart()) ?? [];
    if (head === "") throw new Error(`${where} is neither JSON nor headers, an empty line and a body: see --help`);
    const lines = head.trim().split(/\r?\n/);
    const headers = lines.filter((line, at) => at > 0 || !/^(POST|HTTP\/)/.test(line)).flatMap(parseHeader);
    return { rawHeaders: headers, body: body.replace(/\r?\n$/, "") };
  }
  const { data } = Recorded.safeParse(json);
  if (data === undefined || (data.rawHeaders === undefined && data.headers === undefined)) {
    return { rawHeaders: [], body: text.trim() };
  }
  const headers = Object.entries(data.headers ?? {}).flatMap(([name, value]) =>
    [value].flat().flatMap((one) => [name, one]),
  );
  const body = typeof data.body === "string" ? data.body : JSON.stringify(data.body ?? {});
  return { rawHeaders: data.rawHeaders ?? headers, body };
}

function parseHeader(line: string): [string, string] {
  const at = line.indexOf(":");
  if (at <= 0) throw new Error(`${JSON.stringify(line.slice(0, 60))} is no header: write 'Name: value'`);
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

/** Each host's header for the event; a recorded delivery has one. */
const eventHeader = { github: "X-GitHub-Event", gitea: "X-Gitea-Event", gitlab: "X-Gitlab-Event" } as const;

/** A payload alone does not name its event as the host would: it is read off it. */
export function withEvent(kind: ForgeKind, { rawHeaders, body }: GivenDelivery, event?: string): GivenDelivery {
  const name = eventHeader[kind];
  const others = withoutHeaders({ rawHeaders, body }, (one) => event !== undefined && one === name.toLowerCase());
  const named = others.rawHeaders.some((one) => one.toLowerCase() === name.toLowerCase());
  const wanted = named ? undefined : (event ?? guessEvent(body.toString("utf8")));
  return wanted === undefined ? others : { body, rawHeaders: [...others.rawHeaders, name, wanted] };
}

export function withoutHeaders(
  { rawHeaders, body }: GivenDelivery,
  isUnwanted: (name: string) => boolean,
): GivenDelivery {
  const kept: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = rawHeaders.slice(at, at + 2);
    if (!isUnwanted(name.toLowerCase())) kept.push(name, value);
  }
  return { body, rawHeaders: kept };
}

function guessEvent(body: string): string | undefined {
  const payload = parseJson(body);
  if (typeof payload !== "object" || payload === null) return undefined;
  if ("pull_request" in payload) return "pull_request";
  if ("ref" in payload) return "after" in payload ? "push" : "ref_type" in payload ? "delete" : undefined;
  return "zen" in payload ? "ping" : undefined;
}

/** Which host it comes from, as far as its headers tell; Gitea sends GitHub's headers as well. */
function kindOf(headers: readonly string[]): ForgeKind | undefined {
  const names = headers.map((name) => name.toLowerCase());
  if (names.some((name) => /^x-(gitea|forgejo)-/.test(name))) return "gitea";
  if (names.some((name) => name.startsWith("x-gitlab-"))) return "gitlab";
  return names.some((name) => name.startsWith("x-github-")) ? "github" : undefined;
}

/** The configured forge that would receive it. Throws with what to do if that is not clear. */
export function forgeOf(
  { rawHeaders, body }: GivenDelivery,
  forges: readonly ForgeConfig[],
  id: string | undefined,
): ForgeConfig {
  const ids = forges.map((forge) => forge.id).join(", ") || "none";
  if (id !== undefined) {
    const named = forges.find((forge) => forge.id === id);
    if (named === undefined) throw new Error(`there is no forge ${id} in the configuration; it has: ${ids}`);
    return named;
  }
  const payload = parseJson(body.toString("utf8"));
  const kind =
    kindOf(rawHeaders) ?? (typeof payload === "object" && payload && "object_kind" in payload ? "gitlab" : undefined);
  const fitting = kind === undefined ? forges : forges.filter((forge) => forge.kind === kind);
  const [only, ...others] = fitting;
  if (only === undefined) {
    const what =
      kind === undefined ? "no forge is configured" : `no forge of kind ${kind} is configured (there is: ${ids})`;
    throw new Error(`${what}: give the server's configuration with --config or its variables`);
  }
  if (others.length > 0)
    throw new Error(`which forge is it from? Say so with --forge: ${fitting.map((one) => one.id).join(", ")}`);
  return only;
}
