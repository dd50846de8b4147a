/** Reads a delivery from a file: a recording, a copy from the git host's page, or only its payload. */
import type { ForgeKind } from "../model.ts";
import { z } from "zod";
import type { ForgeConfig } from "../config.ts";
import { parseJson } from "../kit/json.ts";
import type { ProgramDeps } from "./commands.ts";
import { readFile } from "./configuration.ts";

export interface GivenDelivery {
  /** Alternating names and values. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface DeliveryFlags {
  readonly forge?: string;
  readonly event?: string;
  readonly header?: readonly string[];
}

export const deliveryHelp = `
Formats of FILE (default or -: stdin):
  payload only                As shown on the git host's page of recent deliveries. The event is detected from the payload
                              or set with --event; add headers with -H 'Name: value'
  headers, empty line, body   As sent over HTTP
  JSON {"headers", "body"}    As written by webhook recorders; also with rawHeaders, a list of alternating names and values`;

const Recorded = z.object({
  rawHeaders: z.array(z.string()).optional(),
  headers: z.record(z.string(), z.union([z.string(), z.array(z.string())])).optional(),
  body: z.unknown(),
});

/** Throws with advice if the delivery cannot be read. */
export async function readDelivery(
  file: string | undefined,
  { header = [] }: DeliveryFlags,
  { stdin }: Pick<ProgramDeps, "stdin">,
): Promise<GivenDelivery> {
  const fromStdin = file === undefined || file === "-";
  const text = fromStdin ? await stdin() : readFile(file);
  const where = fromStdin ? "stdin" : file;
  if (text.trim() === "") throw new Error(`${where} is empty; see --help for the formats of a delivery`);
  const { rawHeaders, body } = parseDelivery(text, where);
  return { rawHeaders: [...rawHeaders, ...header.flatMap(parseHeader)], body: Buffer.from(body) };
}

function parseDelivery(text: string, where: string): { rawHeaders: string[]; body: string } {
  const json = parseJson(text);
  if (json === undefined) {
    const [, head = "", body = ""] = /^((?:[^\r\n]+\r?\n)+)\r?\n([\s\S]*)$/.exec(text.trimStart()) ?? [];
    if (head === "")
      throw new Error(`${where} is neither JSON nor an HTTP request (headers, empty line, body); see --help`);
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
  if (at <= 0) throw new Error(`${JSON.stringify(line.slice(0, 60))} is not a header; use 'Name: value'`);
  return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

/** Header with the event name, by git host. */
const eventHeader = { github: "X-GitHub-Event", gitea: "X-Gitea-Event", gitlab: "X-Gitlab-Event" } as const;

/** Adds the event header if it is missing, from `event` or else detected from the payload. */
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

/** The kind of git host, detected from the headers. Gitea sends GitHub's headers as well. */
function kindOf(headers: readonly string[]): ForgeKind | undefined {
  const names = headers.map((name) => name.toLowerCase());
  if (names.some((name) => /^x-(gitea|forgejo)-/.test(name))) return "gitea";
  if (names.some((name) => name.startsWith("x-gitlab-"))) return "gitlab";
  return names.some((name) => name.startsWith("x-github-")) ? "github" : undefined;
}

/** The configured forge that would receive the delivery. Throws with advice if none or several match. */
export function forgeOf(
  { rawHeaders, body }: GivenDelivery,
  forges: readonly ForgeConfig[],
  id: string | undefined,
): ForgeConfig {
  const ids = forges.map((forge) => forge.id).join(", ") || "none";
  if (id !== undefined) {
    const named = forges.find((forge) => forge.id === id);
    if (named === undefined) throw new Error(`no forge ${id} is configured; configured: ${ids}`);
    return named;
  }
  const payload = parseJson(body.toString("utf8"));
  const kind =
    kindOf(rawHeaders) ?? (typeof payload === "object" && payload && "object_kind" in payload ? "gitlab" : undefined);
  const fitting = kind === undefined ? forges : forges.filter((forge) => forge.kind === kind);
  const [only, ...others] = fitting;
  if (only === undefined) {
    const what =
      kind === undefined
        ? "no git host (forge) is configured"
        : `no forge of kind ${kind} is configured (configured: ${ids})`;
    throw new Error(
      `${what}; pass the server's configuration file with --config, or set the same TOWLINE_… variables as for the server`,
    );
  }
  if (others.length > 0)
    throw new Error(
      `several forges match the delivery; choose one with --forge: ${fitting.map((one) => one.id).join(", ")}`,
    );
  return only;
}
