// Asks for the token that requests over TCP carry.
import shared from './shared.js';
import {token} from './api.js';
import {uniqueId} from './parts.js';

const {element} = shared;

// `reason`: why it is asked. `onDone`: a token was given.
export const signIn = (container, reason, onDone) => {
  const id = uniqueId('token');
  const field = element('input', {id, type: 'password', autocomplete: 'off', spellcheck: 'false', required: '',
    'aria-describedby': `${id}-reason`});
  const form = element('form', {class: 'message sign-in'}, [
    element('h1', {class: 'message-title', text: 'This server asks for a token'}),
    element('p', {id: `${id}-reason`, role: 'alert', text: reason}),
    element('label', {for: id, text: 'Token'}), field,
    element('button', {type: 'submit', text: 'Sign in'}),
    element('p', {class: 'caption',
      text: 'A token of role read is enough. It stays in this tab until it is closed.'})]);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    onDone();
  });
  container.replaceChildren(form);
  field.focus();
};
