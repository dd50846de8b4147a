/** What the routes of the local GitHub share: their form, permissions, pages, and refusals. */
import type { Caller, GithubLogins, Permissions } from "./github-logins.ts";
import type { GithubRepository } from "./github-repository.ts";

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Context {
  readonly apiUrl: string;
  readonly repository: GithubRepository;
  readonly logins: GithubLogins;
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** In GitHub's format: it was validated against the description before. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Route {
  readonly method: string;
  readonly template: string;
  readonly answer: (context: Context) => Reply;
  /** Needs no login. */
  readonly open?: true;
}

export function refusal(status: number, message: string, errors?: readonly object[]): Reply {
  const documentation_url = "https://docs.github.com/rest";
  return { status, body: { message, documentation_url, status: String(status), ...(errors && { errors }) } };
}

export const notFound = refusal(404, "Not Found");
export const invalid = (resource: string, field: string, message: string) =>
  refusal(422, "Validation Failed", [{ resource, code: "custom", field, message }]);

export const isThis = ({ repository, params }: Context) =>
  `${params["owner"]}/${params["repo"]}`.toLowerCase() === repository.fullName.toLowerCase();

/** For requests on the repository: GitHub hides it from callers that may not know that it exists. */
export function within(
  permission: keyof Permissions,
  level: "read" | "write",
  answer: (context: Context) => Reply,
): Route["answer"] {
  return (context) => {
    const { caller, repository, logins } = context;
    if (!isThis(context) || caller.kind === "app") return notFound;
    if (caller.kind === "installation" && !caller.repositories.includes(repository.name.toLowerCase())) return notFound;
    const has = caller.permissions[permission];
    if (has !== "write" && has !== level) {
      if (caller.kind === "user" && logins.classic) return notFound;
      const kind = caller.kind === "user" ? "personal access token" : "integration";
      return {
        ...refusal(403, `Resource not accessible by ${kind}`),
        headers: { "x-accepted-github-permissions": `${permission}=${level}` },
      };
    }
    if (repository.archived && level === "write") return refusal(403, "Repository was archived so is read-only.");
    return answer(context);
  };
}

export function paged({ apiUrl, query }: Context, path: string, all: readonly unknown[]): Reply {
  const size = Math.min(Number(query.get("per_page") ?? 30), 100);
  const page = Number(query.get("page") ?? 1);
  const last = Math.max(1, Math.ceil(all.length / size));
  const to = (number: number, rel: string) => {
    const there = new URLSearchParams(query);
    there.set("page", String(number));
    return `<${apiUrl}${path}?${there}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [to(page - 1, "prev"), to(1, "first")] : []),
    ...(page < last ? [to(page + 1, "next"), to(last, "last")] : []),
  ];
  const body = all.slice((page - 1) * size, page * size);
  return { status: 200, body, headers: links.length > 0 ? { link: links.join(", ") } : {} };
}

export function asApp(answer: Route["answer"]): Route["answer"] {
  return (context) =>
    context.caller.kind === "app" ? answer(context) : refusal(401, "A JSON web token could not be decoded");
}
