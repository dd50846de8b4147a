import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: 1 });
