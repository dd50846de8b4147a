/** What the local GitHub answers about the deliveries of webhooks. */
import { asApp, type Context, notFound, type Reply, type Route, within } from "./github-replies.ts";
import { githubExample } from "./github-openapi.ts";
import type { GithubHook } from "./github-repository.ts";

/** Newest first, as the API lists them. */
export interface GithubDelivery {
  readonly id: number;
  readonly guid: string;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly event: string;
  /** `OK`, or why it failed. */
  readonly status: string;
  readonly status_code: number;
  readonly redelivery?: boolean;
  readonly repository_id?: number;
}

const hook = ({ repository, params }: Context) => repository.hooks.find(({ id }) => String(id) === params["hook_id"]);

/** By cursor: the list has no page numbers. */
function paged({ apiUrl, query }: Context, path: string, all: readonly GithubDelivery[]): Reply {
  const size = Math.min(Number(query.get("per_page") ?? 30), 100);
  const from = Number((query.get("cursor") ?? "v1_0").slice("v1_".length));
  const next = new URLSearchParams({ per_page: String(size), cursor: `v1_${from + size}` });
  const body = all.slice(from, from + size).map((one) => showDelivery(one));
  const link = `<${apiUrl}${path}?${next}>; rel="next"`;
  return { status: 200, body, headers: from + size < all.length ? { link } : {} };
}

function showDelivery({ at, redelivery = false, repository_id = 1, ...one }: GithubDelivery): Record<string, unknown> {
  const [example] = githubExample("hook-delivery-items") as unknown as Record<string, unknown>[];
  return {
    ...example,
    ...one,
    delivered_at: new Date(at).toISOString(),
    redelivery,
    repository_id,
    throttled_at: null,
  };
}

function redeliver(all: GithubDelivery[], id: string | undefined, status: string, now: number): Reply {
  const found = all.find((one) => String(one.id) === id);
  if (found === undefined) return notFound;
  const newest = Math.max(...all.map((one) => one.id));
  const status_code = status === "OK" ? 202 : 502;
  all.unshift({ ...found, id: newest + 1, at: now, redelivery: true, status, status_code });
  return { status: 202, body: {} };
}

export const deliveryRoutes: readonly Route[] = [
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries",
    answer: within("repository_hooks", "read", (context) => {
      const found: GithubHook | undefined = hook(context);
      const path = `/repositories/${context.repository.id}/hooks/${found?.id}/deliveries`;
      return found ? paged(context, path, found.deliveries ?? []) : notFound;
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts",
    answer: within("repository_hooks", "write", (context) => {
      const { repository, params } = context;
      const all = hook(context)?.deliveries;
      return all ? redeliver(all, params["delivery_id"], repository.redeliveryStatus, repository.now()) : notFound;
    }),
  },
  {
    method: "GET",
    template: "/app/hook/deliveries",
    answer: asApp((context) => paged(context, "/app/hook/deliveries", context.logins.appDeliveries)),
  },
  {
    method: "POST",
    template: "/app/hook/deliveries/{delivery_id}/attempts",
    answer: asApp(({ logins, params, repository }) =>
      redeliver(logins.appDeliveries, params["delivery_id"], repository.redeliveryStatus, repository.now()),
    ),
  },
];
