/**
 * Creates a GitHub App from a manifest:
 * https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
 */
import { z } from "zod";
import type { Logger } from "../log.ts";
import { githubEvents } from "./github/hooks.ts";
import { read } from "./github/login.ts";
import { createWire } from "./github/wire.ts";

const githubApi = "https://api.github.com";
const timeoutMs = 10_000;

const Conversion = z.object({
  id: z.int(),
  slug: z.string(),
  html_url: z.url({ protocol: /^https?$/ }),
  pem: z.string().regex(/^-----BEGIN [A-Z ]*PRIVATE KEY-----/, "is not a private key"),
  webhook_secret: z.string().min(16).nullish(),
});

export type MadeApp = z.infer<typeof Conversion>;

/** The page where users submit the manifest. Without an organization the App belongs to the user. */
export function manifestFormUrl(apiUrl: string | undefined, organization: string | undefined, state: string): string {
  const api = new URL(apiUrl ?? githubApi);
  const folder = api.pathname.replace(/\/+$/, "");
  const web =
    folder === "" ? new URL(api.href.replace("//api.", "//")).origin : api.origin + folder.replace(/\/api\/v3$/, "");
  const place = organization === undefined ? "" : `/organizations/${encodeURIComponent(organization)}`;
  return `${web}${place}/settings/apps/new?state=${encodeURIComponent(state)}`;
}

interface Manifest {
  readonly name: string;
  readonly homepage: string;
  readonly webhookUrl: string;
  readonly redirectUrl: string;
}

/** The permissions and events of the App: docs/connect-github.md has the same list with the reasons. */
export function toManifest({ name, homepage, webhookUrl, redirectUrl }: Manifest) {
  return {
    name,
    url: homepage,
    description: "Deploys with kluctl and shows in pull requests what merging would change.",
    hook_attributes: { url: webhookUrl, active: true },
    redirect_url: redirectUrl,
    public: false,
    default_permissions: {
      ...{ metadata: "read", contents: "read", pull_requests: "write", checks: "write", statuses: "write" },
      merge_queues: "read",
    },
    // With the permission to write checks, GitHub sends their events without a subscription.
    default_events: [...githubEvents, "merge_group"],
  };
}

/** Exchanges `code` for the new App: possible once, and within an hour. Throws ForgeError. */
export async function fetchMadeApp(apiUrl: string | undefined, code: string, log: Logger, signal: AbortSignal) {
  const wire = createWire({ apiUrl: (apiUrl ?? githubApi).replace(/\/+$/, ""), timeoutMs, log });
  const question = { what: "fetch the new App's key", who: "the App" } as const;
  const answer = await wire.request("POST /app-manifests/{code}/conversions", { code }, question, signal);
  return read(Conversion, answer, question);
}
