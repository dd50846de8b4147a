/** What a target can do, as far as it matters for what is sent. */
export interface Abilities {
  readonly edits: boolean;
  readonly refreshMs?: number | undefined;
}
