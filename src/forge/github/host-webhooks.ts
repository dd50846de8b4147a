/** The webhooks of a repository on GitHub as it shows them, or the App's own one, which all its repositories share. */
import { z } from "zod";
import type { DeliveryAttempt, FoundWebhooks, HostWebhook } from "../../model.ts";
import type { HostWebhooks } from "../../ports.ts";
import type { ForgeLogin } from "../forge-options.ts";
import { hasPathOf, hostOfAddress, sortWebhooks } from "../hooks.ts";
import { appAnswer } from "./answers.ts";
import { createAppLogin } from "./app-login.ts";
import { type Client, type GithubCall, createClient } from "./client.ts";
import { HookConfig, listHooks } from "./hooks.ts";
import { createTokenLogin, isProblem, read } from "./login.ts";
import type { RequestDescription } from "./problem.ts";
import { listAttempts } from "./recorded-deliveries.ts";
import type { Wire } from "./wire.ts";

const Repository = z.object({ id: z.int() });
const AppEvents = appAnswer.extend({ events: z.array(z.string()) });

export interface GithubWebhooksOptions {
  /** The forge's id: the last part of its webhooks' addresses. */
  readonly id: string;
  readonly login: ForgeLogin;
  /** `app`: requests are sent as this App itself. */
  readonly wireFor: (app?: { readonly appId: string; readonly privateKey: string }) => Wire;
}

export function createGithubWebhooks({ id, login, wireFor }: GithubWebhooksOptions): Pick<HostWebhooks, "find"> {
  const plain = wireFor();
  const wire = "app" in login ? wireFor(login.app) : undefined;
  const client = createClient(
    plain,
    "app" in login ? createAppLogin(wire ?? plain) : createTokenLogin(login.token, plain),
  );
  return {
    async find(repoName, signal) {
      const ofApp = wire && (await findAppWebhook(id, { wire, client }, repoName, signal));
      return ofApp ? { ours: [ofApp], similar: [] } : findOfRepository(id, client, repoName, signal);
    },
  };
}

/** `undefined` if the App's webhook is not one of this forge: then the repository has its own. */
async function findAppWebhook(
  id: string,
  { wire, client }: { wire: Wire; client: Client },
  repoName: string,
  signal: AbortSignal | undefined,
): Promise<HostWebhook | undefined> {
  const question = (what: string): RequestDescription => ({ what, who: "the App" });
  const reading = question("read the App's webhook");
  const ask = (route: string, what = reading) => wire.request(route, {}, what, signal);
  let url: string | null | undefined;
  try {
    ({ url } = read(HookConfig, await ask("GET /app/hook/config"), reading));
  } catch (error) {
    // An App without a webhook has no configuration of one.
    if (!isProblem(error, "not-found")) throw error;
  }
  if (!hasPathOf(url, id)) return undefined;
  const { events } = read(AppEvents, await ask("GET /app"), reading);
  const call = { what: `read the id of ${repoName}`, repoName, permission: "pull_requests", signal } as const;
  const { id: repository } = client.read(Repository, await client.ask("GET /repos/{owner}/{repo}", {}, call), call);
  const listing = question("list the deliveries of the App's webhook");
  return {
    ...{ key: "the App's webhook", host: hostOfAddress(url), repository },
    isEnabled: true, // the API does not show whether an App's webhook is active
    sendsPushes: events.includes("push"),
    attempts: (since, within) =>
      listAttempts(
        {
          ask: (parameters) => wire.request("GET /app/hook/deliveries", parameters, listing, within),
          read: (type, answer) => read(type, answer, listing),
        },
        since,
      ),
    async deliverAgain({ id: delivery_id }, within) {
      const asking = question("request another delivery of the App's webhook");
      await wire.request("POST /app/hook/deliveries/{delivery_id}/attempts", { delivery_id }, asking, within);
    },
  };
}

async function findOfRepository(
  id: string,
  client: Client,
  repoName: string,
  signal: AbortSignal | undefined,
): Promise<FoundWebhooks> {
  const callFor = (what: string, within = signal): GithubCall => ({
    ...{ what: `${what} of ${repoName}`, repoName, permission: "repository_hooks", signal: within },
  });
  const all = await listHooks(client, callFor("list the webhooks"));
  const { ours, similar } = sortWebhooks(all, ({ config }) => config.url, id);
  return {
    similar,
    ours: ours.map(({ id: hook_id, active, events, config }): HostWebhook => ({
      ...{ key: `${repoName} ${hook_id}`, host: hostOfAddress(config.url), isEnabled: active },
      sendsPushes: events.includes("push") || events.includes("*"),
      attempts(since, within): Promise<readonly DeliveryAttempt[]> {
        const call = callFor("list the deliveries of the webhook", within);
        const route = "GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries";
        return listAttempts(
          {
            ask: (parameters) => client.ask(route, { hook_id, ...parameters }, call),
            read: (type, answer) => client.read(type, answer, call),
          },
          since,
        );
      },
      async deliverAgain({ id: delivery_id }, within) {
        const route = "POST /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts";
        await client.ask(route, { hook_id, delivery_id }, callFor("request another delivery of the webhook", within));
      },
    })),
  };
}
