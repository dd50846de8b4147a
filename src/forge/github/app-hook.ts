/** A GitHub App has one webhook for all repositories where it is installed. */
import { z } from "zod";
import { type Ensured, type EnsureOptions, type WantedHook, attempt, isSameAddress, lackedEvents } from "../hooks.ts";
import { appAnswer, installationAnswer } from "./answers.ts";
import { githubEvents, HookConfig, lackOfConfig } from "./hooks.ts";
import { isProblem, read } from "./login.ts";
import { type RequestDescription, problemOf } from "./problem.ts";
import type { Wire } from "./wire.ts";

const AppEvents = appAnswer.extend({ events: z.array(z.string()) });

/** `wire` sends requests as the App itself. */
export async function ensureAppHook(
  wire: Wire,
  { url, secret }: WantedHook,
  { rotate, dryRun }: EnsureOptions,
): Promise<Ensured> {
  const question: RequestDescription = { what: "set up the App's webhook", who: "the App" };
  return attempt("the App's webhook", "it needs the App's id and private key", async () => {
    const app = read(AppEvents, await wire.request("GET /app", {}, question), question);
    const name = `the webhook of the App ${app.slug}`;
    const config = read(HookConfig, await wire.request("GET /app/hook/config", {}, question), question);
    // The webhook may serve another server: its address is not overwritten.
    if (config.url && !isSameAddress(config.url, url)) {
      const place = URL.parse(config.url)?.host ?? "another address";
      const why = `it sends to ${place}: if only this server uses the App, enter ${url} in its settings, Webhook`;
      return { name, result: "failed", why: [why] };
    }
    const lacks = [...(config.url ? [] : ["it had no address"]), ...lackOfConfig(config)];
    const isNeeded = lacks.length > 0 || rotate;
    if (isNeeded && !dryRun) {
      const fields = { url, content_type: "json", insecure_ssl: "0", ...((rotate || !config.secret) && { secret }) };
      // Not spread: octokit would send the request to a parameter named `url`.
      await wire.request("PATCH /app/hook/config", { data: fields }, question);
    }
    const done = [...lacks, ...(rotate ? ["the secret was set again"] : [])];
    const events = lackedEvents(app.events, githubEvents);
    if (events.length > 0) {
      const ask = `it does not send ${events.join(", ")}: subscribe to that in the App's settings, Permissions & events`;
      return { name, result: "failed", why: [ask, ...done] };
    }
    return { name, result: isNeeded ? "repaired" : "unchanged", why: done };
  });
}

/**
 * Checks whether the App's webhook receives the events of a repository. Only the repository's owner can install the
 * App.
 */
export async function examineInstallation(wire: Wire, name: string): Promise<Ensured> {
  const question: RequestDescription = { what: `find the App's installation on ${name}`, who: "the App" };
  return attempt(name, "it needs the App's id and private key", async () => {
    const [owner, repo] = name.split("/");
    try {
      const route = "GET /repos/{owner}/{repo}/installation";
      read(installationAnswer, await wire.request(route, { owner, repo }, question), question);
    } catch (error) {
      if (!isProblem(error, "not-found")) throw error;
      const { slug, html_url } = read(appAnswer, await wire.request("GET /app", {}, question), question);
      const why = `the App ${slug} is not installed on it: install it, or select the repository, at ${html_url}/installations/new`;
      throw problemOf("refused", question, why, error);
    }
    return { name, result: "unchanged", why: ["the App is installed"] };
  });
}
