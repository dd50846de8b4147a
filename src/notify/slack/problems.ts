/** Slack's errors: one word each, in the response of its API or as the text of a webhook's response. */
import { NotifyError } from "../../errors.ts";
import { toNotifyError } from "../post.ts";

const rateLimits = new Set(["ratelimited", "rate_limited", "message_limit_exceeded"]);

/** Slack's own faults, and workspaces and channels that are being migrated. */
const transient = new Set([
  "internal_error",
  "fatal_error",
  "service_unavailable",
  "request_timeout",
  "update_failed",
  "team_added_to_org",
  "org_login_required",
  "external_channel_migrating",
]);

/** The message cannot be changed, or not be replied to: a new message has to replace it. */
export const gone: ReadonlySet<string> = new Set([
  "message_not_found",
  "thread_not_found",
  "cant_update_message",
  "edit_window_closed",
  "cannot_reply_to_message",
  "restricted_action_thread_locked",
  "channel_not_found",
  "is_archived",
  "is_inactive",
]);

const newToken = "reinstall the app in Slack and configure its new token";
const otherChannel = "unarchive the channel or configure another one";
const permission = "ask an administrator of the workspace to let the app post in this channel";
const hints: Readonly<Record<string, string>> = {
  not_in_channel: "invite the app to the channel",
  channel_not_found: "check the name of the channel; invite the app to it if it is private",
  is_archived: otherChannel,
  is_inactive: otherChannel,
  invalid_auth: newToken,
  not_authed: newToken,
  token_revoked: newToken,
  token_expired: newToken,
  account_inactive: newToken,
  missing_scope: "give the app the scope chat:write and reinstall it",
  not_allowed_token_type: "configure the app's bot token, which begins with xoxb-",
  restricted_action: permission,
  restricted_action_read_only_channel: permission,
  restricted_action_thread_only_channel: permission,
  restricted_action_non_threadable_channel: permission,
  ekm_access_denied: permission,
};

/** The error, if the text is one: other text could be anything, including the address. */
export function findError(text: string): string | undefined {
  return /^\s*([a-z_]{1,60})\s*$/.exec(text)?.[1];
}

/** What an error means that Slack answers with status 200. */
export function toSlackError(text: string, host: string, headers: Headers): NotifyError {
  const error = findError(text);
  if (error === undefined)
    return new NotifyError("refused", `${host}: the response is not one of Slack's: check the address`);
  if (rateLimits.has(error)) return toNotifyError({ status: 429, headers }, host, error);
  if (transient.has(error)) return new NotifyError("later", `${host}: ${error}`);
  const hint = hints[error] ?? "Slack's documentation of chat.postMessage explains this error";
  return new NotifyError("refused", `${host}: ${error}: ${hint}`);
}
