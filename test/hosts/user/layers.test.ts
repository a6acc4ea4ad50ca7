/** An ordinary user's host that lacks a layer of isolation. */

import {
  ANYWHERE,
  refusals,
  refusedAtAnyMoment,
  refusedFolders,
  replacedFolders,
  USERS_HOST,
} from '../../faults/kernel/layers.ts';

refusals([...ANYWHERE, ...USERS_HOST]);
refusedAtAnyMoment();
refusedFolders();
replacedFolders();
