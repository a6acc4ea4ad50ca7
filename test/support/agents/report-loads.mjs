/** For `node --import`: every module that is loaded is told on stderr. */

import { writeSync } from 'node:fs';
import { registerHooks } from 'node:module';

registerHooks({
  load(url, context, next) {
    writeSync(2, `loads ${url}\n`);
    return next(url, context);
  },
});
