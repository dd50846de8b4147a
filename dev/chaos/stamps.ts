/** The stamps by which the harness knows who wrote an object. Pure, apart from what it remembers. */

/** The annotation in which the model kluctl and users leave their stamp. */
export const stamp = "chaos.towline.dev/run";
const personStamp = "person ";

/** A user's stamp differs each time, so that a later write that leaves it in place is recognized. */
export function stampOfPerson(number: number): Readonly<Record<string, string>> {
  return { [stamp]: `${personStamp}${number}` };
}

export interface StampedWrite {
  readonly name: string;
  /** The object's stamp, as it is after the write or before the deletion. */
  readonly text: string | undefined;
  readonly version: string;
  readonly deleted: boolean;
}

/**
 * Returns who made each write, given in order: a run, `person`, or `undefined` if unknown. A writer without a stamp, as
 * the real kluctl, leaves the previous stamp in place. Deletions leave none, but users stamp what they are about to
 * delete.
 */
export function createWriters(): (write: StampedWrite) => string | undefined {
  const last = new Map<string, StampedWrite & { readonly by: string | undefined }>();
  return (write) => {
    const before = last.get(write.name);
    if (before?.version === write.version) return before.by; // listed again
    const isOwn = write.deleted ? before?.by === "person" : before?.deleted !== false || before.text !== write.text;
    const by = !isOwn ? undefined : write.text?.startsWith(personStamp) ? "person" : write.text;
    last.set(write.name, { ...write, by });
    return by;
  };
}
