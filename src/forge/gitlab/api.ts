/**
 * GitLab's client library on a requester of our own. The library's requester sends a rate-limited request ten times
 * within a third of a second, and waits five minutes for a response.
 */
import {
  Commits,
  Deployments,
  Environments,
  MergeRequestNotes,
  MergeRequests,
  Pipelines,
  ProjectHooks,
  Projects,
  Users,
} from "@gitbeaker/rest";
import { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { type Ask, type Question, readAnswer } from "../ask.ts";

/** GitLab's maximum. */
export const perPage = 100;
const maxPages = 1_000;

type RequesterFn = NonNullable<ConstructorParameters<typeof Users>[0]["requesterFn"]>;
type Send = ReturnType<RequesterFn>["get"];

export type GitlabApi = ReturnType<typeof createGitlabApi>;

/** The resources for one caller: the library does not support a signal per call. */
export function createGitlabApi(ask: Ask, how: Pick<Question, "signal" | "excuses">) {
  function send(method: NonNullable<Question["method"]>, folder: string): Send {
    return async (endpoint, { searchParams, body } = {}) => {
      const answer = await ask({
        ...how,
        method,
        path: `${folder}/${endpoint}`,
        query: decamelize(searchParams ?? {}) as NonNullable<Question["query"]>,
        ...(method !== "GET" && { body: decamelize((body ?? {}) as Record<string, unknown>) }),
      });
      // The caller validates what the library returns.
      return { body: answer.json as never, headers: Object.fromEntries(answer.headers), status: answer.status };
    };
  }

  const requesterFn: RequesterFn = ({ url }) => {
    const folder = url.slice("/api/v4".length).replace(/\/$/, "");
    return {
      get: send("GET", folder),
      post: send("POST", folder),
      put: send("PUT", folder),
      patch: send("PATCH", folder),
      delete: send("DELETE", folder),
    };
  };
  // `ask` already has the address, the token and the timeout.
  const options = { requesterFn, host: "", queryTimeout: null };
  return {
    users: new Users(options),
    projects: new Projects(options),
    requests: new MergeRequests(options),
    notes: new MergeRequestNotes(options),
    pipelines: new Pipelines(options),
    commits: new Commits(options),
    deployments: new Deployments(options),
    environments: new Environments(options),
    hooks: new ProjectHooks(options),
  };
}

export type AskPage = (page: { page: number; perPage: number; showExpanded: true }) => Promise<unknown>;

/** Reads all pages by number: the library's own pagination has no limit. */
export async function readPages<T extends z.ZodType>(
  type: T,
  request: string,
  askPage: AskPage,
): Promise<z.infer<T>[]> {
  const Page = z.object({ data: z.array(type), paginationInfo: z.object({ next: z.int().positive().nullable() }) });
  const all: z.infer<T>[] = [];
  for (let page = 1; page <= maxPages;) {
    const json = await askPage({ page, perPage, showExpanded: true });
    const { data, paginationInfo } = readAnswer(Page, { json, request });
    all.push(...data);
    if (paginationInfo.next === null || paginationInfo.next <= page) return all;
    page = paginationInfo.next;
  }
  throw new ForgeError("refused", `${request}: more than ${maxPages} pages`);
}

function decamelize(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const named = Object.entries(values).map(([name, value]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value,
  ]);
  return Object.fromEntries(named) as Record<string, unknown>;
}
