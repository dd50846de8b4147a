/** Describes encrypted files that are not decrypted: which of them change, and why one prevents rendering. Pure. */
import { PrepareError } from "../errors.ts";
import { annotation, type Stubbed } from "../model.ts";
import type { Preview } from "../model/report.ts";
import { cutLine, makeVisible } from "./visible-text.ts";

const mostPaths = 20;

/** Only files of the project at this path; those of other projects in the repository are not included. */
export function describeEncrypted(
  path: string,
  merged: Stubbed["encrypted"],
  deployed: Stubbed["encrypted"] | undefined,
): Preview["encrypted"] {
  const isOwn = (file: string) => path === "" || file.startsWith(`${path}/`);
  const own = [...merged].filter(([file]) => isOwn(file));
  const changed = own.filter(([file, digest]) => deployed?.get(file) !== digest).map(([file]) => file);
  const gone = [...(deployed?.keys() ?? [])].filter((file) => isOwn(file) && !merged.has(file));
  if (own.length + gone.length === 0) return undefined;
  const paths = [...changed, ...gone].sort();
  const shown = paths.slice(0, mostPaths).map((file) => cutLine(makeVisible(file), 200));
  return {
    files: own.length,
    changed: paths.length > mostPaths ? [...shown, `and ${paths.length - mostPaths} more`] : shown,
  };
}

/** An encrypted file of another repository, or one that does not have the format that SOPS writes. */
export function explainUndecrypted(error: unknown): unknown {
  if (!(error instanceof PrepareError) || !error.message.includes("Failed to get the data key")) return error;
  return new PrepareError(
    `${error.message}\n\nPreviews do not decrypt files, and this file has no placeholder: only files of the repository itself have one. ` +
      `To decrypt files in previews, set the annotation ${annotation.previewDecrypt}: "true" on the KluctlDeployment.`,
    { cause: error },
  );
}
