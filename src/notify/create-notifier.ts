/** Creates the notifier of a configured target. */
import type { TargetConfig } from "../config.ts";
import type { Notifier } from "../ports.ts";
import { createAlertmanagerNotifier } from "./alertmanager/notifier.ts";
import { createCloudEventsNotifier } from "./cloudevents/notifier.ts";
import { createEmailNotifier } from "./email/notifier.ts";
import { createFluxNotifier } from "./flux/notifier.ts";
import { withOwnWords } from "./own-words.ts";
import { createSlackNotifier } from "./slack/notifier.ts";
import { createTeamsNotifier } from "./teams/notifier.ts";
import { createWebhookNotifier } from "./webhook/notifier.ts";

/** `cluster`: its name. Throws an Error that says what is wrong with the target's `body` or `words`. */
export function createNotifier(target: TargetConfig, { cluster }: { readonly cluster: string }): Notifier {
  return withOwnWords(ofKind(target, cluster), target.words);
}

function ofKind(target: TargetConfig, cluster: string): Notifier {
  const { kind, channel, from = "", to, labels, body } = target;
  const url = target.url?.reveal() ?? "";
  const token = target.token?.reveal();
  const secrets = target.signingKeys.map((key) => key.reveal());
  switch (kind) {
    case "slack":
      // A bot's address is that of the API, which differs for some of Slack's customers.
      return createSlackNotifier(token === undefined ? { url } : { token, channel, apiUrl: target.url?.reveal() });
    case "teams":
      return createTeamsNotifier({ url });
    case "email":
      return createEmailNotifier({ url, from, to });
    case "webhook":
      return createWebhookNotifier({ url, secrets, token, body });
    case "cloudevents":
      return createCloudEventsNotifier({ url, secrets, token, source: `/clusters/${encodeURIComponent(cluster)}` });
    case "alertmanager":
      return createAlertmanagerNotifier({ url, token, labels });
    case "flux":
      return createFluxNotifier({ url, token });
  }
}
