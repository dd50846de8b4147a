/** Webhooks as their git host shows them: configuration, and the deliveries that it recorded. */

/** One attempt of the host to deliver an event. */
export interface DeliveryAttempt {
  /** The attempt's own id at the host. */
  readonly id: number;
  /** Shared by all attempts for the same event; the id in a delivery record. */
  readonly delivery: string;
  /** Epoch milliseconds. */
  readonly at: number;
  /** Whether the host counts it as delivered. */
  readonly ok: boolean;
  /** Status of the response; absent: there was none. */
  readonly code?: number | undefined;
  readonly isPush: boolean;
  /** The server acts on the event, and no sweep finds the same soon: if it was lost, it has to be delivered again. */
  readonly isUnswept: boolean;
  /** Somebody requested it again. */
  readonly isRepeat: boolean;
  /** Of webhooks that several repositories share; the host's id. */
  readonly repository?: number | undefined;
}

/** A webhook whose address ends in the path of a forge. */
export interface HostWebhook {
  /** Equal for repositories that share the webhook. */
  readonly key: string;
  /** The host in its address: path and query may contain secrets. */
  readonly host: string;
  readonly isEnabled: boolean;
  readonly sendsPushes: boolean;
  /** The host's id of the repository, if others share the webhook. */
  readonly repository?: number | undefined;
  /**
   * The attempts since then, newest first, as far as they fit into a few requests. Absent: the host's API does not list
   * them. Throws ForgeError.
   */
  readonly attempts?: ((since: number, signal?: AbortSignal) => Promise<readonly DeliveryAttempt[]>) | undefined;
  /** Requests the same delivery again. Absent: the host's API cannot. Throws ForgeError. */
  readonly deliverAgain?: ((attempt: DeliveryAttempt, signal?: AbortSignal) => Promise<void>) | undefined;
}

/** The webhooks of one repository. */
export interface FoundWebhooks {
  readonly ours: readonly HostWebhook[];
  /** Hosts of webhooks that look like those of a Towline server, but do not end in the path of the forge. */
  readonly similar: readonly string[];
}
