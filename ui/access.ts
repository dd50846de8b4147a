/** The current user's access to the page. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export interface Access {
  readonly by: string;
  readonly name?: string | undefined;
  readonly role?: string | undefined;
}

export const AccessContext = createContext<Access | undefined>(undefined);

/** Whether the user has any role here. Without one, no actions are shown. */
export function useChanging(): boolean {
  return useContext(AccessContext)?.role !== undefined;
}

/** Why the user cannot perform any action; `undefined` if the user can. */
export function useObjection(): string | undefined {
  const access = useContext(AccessContext);
  return access?.role === "operator" ? undefined : "Only operators can do this.";
}
