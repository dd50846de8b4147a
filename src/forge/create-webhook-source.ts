import type { ForgeKind } from "../model.ts";
import type { ForgeConfig } from "../config.ts";
import { ConfigError } from "../errors.ts";
import type { Clock } from "../ports.ts";
import { createGiteaSource } from "./gitea/webhook.ts";
import { createGithubSource } from "./github/webhook.ts";
import { createGitlabSource } from "./gitlab/webhook.ts";
import type { WebhookSource, WebhookSourceOptions } from "./webhook-source.ts";

export interface CreateWebhookSourceOptions extends WebhookSourceOptions {
  readonly kind: ForgeKind;
  /** GitLab's signed deliveries contain a time. */
  readonly clock?: Clock;
}

/**
 * Throws ConfigError if there is no secret or an empty one: accepting unverified deliveries must be configured
 * explicitly.
 */
export function createWebhookSource(options: CreateWebhookSourceOptions): WebhookSource {
  const { id, kind, secrets, allowUnsigned, clock = { now: () => Date.now() } } = options;
  if (secrets.some((secret) => secret.trim() === "")) throw new ConfigError(`forge ${id}: a webhook secret is empty`);
  if (secrets.length === 0 && !allowUnsigned) throw new ConfigError(`forge ${id}: no webhook secret is configured`);
  switch (kind) {
    case "github":
      return createGithubSource(options);
    case "gitea":
      return createGiteaSource(options);
    case "gitlab":
      return createGitlabSource({ ...options, clock });
  }
}

/** The webhook source of a configured forge. */
export function toWebhookSource({ id, kind, webhookSecrets, app, insecureAllowUnsigned }: ForgeConfig): WebhookSource {
  const secrets = webhookSecrets.map((secret) => secret.reveal());
  return createWebhookSource({ id, kind, secrets, allowUnsigned: insecureAllowUnsigned, appId: app?.id });
}
