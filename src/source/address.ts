/** Checks which network addresses a repository's host may have. */
import { ForbiddenAddressError, type Lookup, resolveAllowed } from "../kit/address.ts";
import { SourceError } from "../errors.ts";

/** Like {@link resolveAllowed}, but throws SourceError. */
export async function resolveHost(host: string, find: Lookup): Promise<readonly string[]> {
  try {
    return await resolveAllowed(host, find);
  } catch (cause) {
    if (cause instanceof ForbiddenAddressError)
      throw new SourceError("refused", `${cause.message}: repositories are not read from such addresses`);
    throw new SourceError("unreachable", `the name ${host} cannot be resolved`, { cause });
  }
}
