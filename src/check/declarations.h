// Whether a buffer is declared as what the call says: the variable is large enough for (count, datatype), and where
// the datatype has MPI_DOUBLE the program has a double (MPI 5.0, 3.3.1). From the program's debug information: the
// variable in which the buffer begins, else the type of a pointer variable of the calling function that points to it.
// Nothing is said where the program's type is not certain: memory of characters, unions, what is not declared in C or
// C++; nor of datatypes of one byte. How much memory a pointer points to is not known.
// Source of the idea: Hueck et al. 2018 (TypeART), which needs a compiler plugin for the same question.
// Thread rule: under the rank's lock.
#pragma once

#include <string>
#include <vector>

#include "check/buffers.h"
#include "check/findings.h"
#include "check/variables.h"

namespace tern::check {

class Declarations {
 public:
  explicit Declarations(const Findings& findings) : findings_(findings) {}
  /// Reports what does not fit.
  void check(const Use& use);

 private:
  /// A variable, or what a pointer variable points to (`bytes` 0), in which the buffer begins.
  struct Subject {
    Variable variable;
    const SourceTypes* types;
  };
  std::vector<Subject> subjects(uintptr_t buffer);
  /// What is wrong; empty: nothing.
  static std::string judge(const Use& use, const Subject& subject);

  const Findings& findings_;
  Variables variables_;
};

}  // namespace tern::check
